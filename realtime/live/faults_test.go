package live

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// delegating is a question that is delegated.
const delegating = `live {"type":"session.input_transcript.delta","event_id":"u1","delta":" What is it?","start_ms":0,"end_ms":500}
live {"type":"session.delegation.created","event_id":"d1","offset_ms":500,"delegation":{"id":"item_1","type":"delegation","target":"client"}}
`

// TestSameDelegation tells of a delegation again, also in other words: it is one turn.
func TestSameDelegation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, _ := play(t, delegating+`live {"type":"session.delegation.created","event_id":"d2","offset_ms":500,"delegation":{"id":"item_1","type":"delegation","target":"client"}}
wait 3s
live {"type":"session.delegation.created","event_id":"d3","offset_ms":2500,"delegation":{"id":"item_1","type":"delegation","target":"responses"}}
wait 5s
`)
		testkit.Equal(t, strings.Count(client, "response.output_item.done"), 1, "questions: %s", client)
	})
}

// TestResultOfAnotherConnection gives a session the result of a call that an earlier one has made: it is told nothing.
func TestResultOfAnotherConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, model := play(t, `client {"type":"conversation.item.create","item":{"id":"out","type":"function_call_output","call_id":"call_old","output":"blue"}}
client {"type":"response.create"}
`)
		if model != "" || strings.Contains(client, "error") {
			t.Errorf("the session was told:\n%sthe client:\n%s", model, client)
		}
	})
}

// TestNobodySpeaks has a call without a microphone for a minute: the clock of its session runs, without a hole, and
// what is typed is told.
func TestNobodySpeaks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.dial()
		time.Sleep(time.Minute)
		b.conn.TrySend([]byte(`{"type":"conversation.item.create","item":{"id":"t","type":"message","role":"user","content":[{"type":"input_text","text":"Hello"}]}}`))
		b.conn.TrySend([]byte(`{"type":"response.create"}`))
		synctest.Wait()
		if told := strings.Join(b.peer.sent(), "\n"); !strings.Contains(told, "typed: Hello") {
			t.Errorf("the session was told:\n%s", told)
		}
		if at := b.conn.sound.position(); at < 59*time.Second || at > 61*time.Second {
			t.Errorf("after a minute its clock is at %v", at)
		}
		b.finish()
	})
}

// TestLateEnd has a session confirm its end only after a while, even with a function that runs. What it has not placed
// before is no error for the client.
func TestLateEnd(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"idle": "", "with a function": delegating} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.peer.deaf = true
				b.dial()
				for line := range strings.Lines(script) {
					b.peer.says(strings.TrimPrefix(strings.TrimSpace(line), "live "))
				}
				time.AfterFunc(time.Second, func() {
					b.peer.says(`{"type":"error","event_id":"f","error":{"type":"server_error","code":"context_injection_incomplete","message":"The session is closing."}}`)
				})
				time.AfterFunc(closeTimeout-time.Second, func() {
					b.peer.says(`{"type":"session.closed","event_id":"x","reason":"close_requested","usage":{"seconds":21.5}}`)
				})
				if u := b.finish(); u != (Usage{21500 * time.Millisecond, true}) {
					t.Errorf("%+v", u)
				}
				if all := strings.Join(b.events, "\n"); strings.Contains(all, `"error"`) {
					t.Errorf("the client learns:\n%s", all)
				}
			})
		})
	}
}

// TestHistoryRefusedLate has a session refuse its history only when it should begin: there is one more, without it.
func TestHistoryRefusedLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.peer.first = `{"type":"error","event_id":"f","error":{"type":"invalid_request_error","code":"invalid_value","message":"too long","param":"session.input"}}`
		first := b.peer
		offer := b.client.Offer
		b.client.Offer = func(ctx context.Context, h media.Handlers) (Peer, string, error) {
			if len(b.posted) == 1 {
				b.peer = &fakePeer{closed: make(chan struct{})}
			}
			return offer(ctx, h)
		}
		b.dial(Message{"user", "Before."})
		if len(b.posted) != 2 || strings.Contains(b.posted[1], `"Before."`) || len(b.dropped) != 1 || len(b.created) != 2 {
			t.Errorf("%d sessions dropped, created %q:\n%s", len(b.dropped), b.created, strings.Join(b.posted, "\n"))
		}
		b.finish()
		b.client.HTTP = &http.Client{Transport: roundTrip(func(*http.Request) (int, string) { return http.StatusNotFound, "{}" })}
		b.client.Finish(b.dropped[0], nil)
		<-first.closed
	})
}

// talk is what two sides say, with the faults of transcripts.
type talk struct {
	random *rand.Rand
	events []talkEvent
	want   []string // one message after the other
	n      int
}

type talkEvent struct {
	at   time.Duration // when it comes
	text string
}

// says adds words of a side from a time on, and returns their end: in bursts, some of them late, some told twice.
func (k *talk) says(kind, who string, from time.Duration, words, late int) time.Duration {
	var all strings.Builder
	for i := range words {
		text := fmt.Sprintf(" %s%d-%d", who, len(k.want), i)
		all.WriteString(text)
		to := from + 200*time.Millisecond + time.Duration(k.random.IntN(300))*time.Millisecond
		event := func(id int) string {
			return string(realtime.Encode(tree{"type": kind, "event_id": fmt.Sprint("t", id), "delta": text, "start_ms": from.Milliseconds(), "end_ms": to.Milliseconds()}))
		}
		k.n++
		at := to + 200*time.Millisecond + time.Duration(k.random.IntN(late))*time.Millisecond
		k.events = append(k.events, talkEvent{at, event(k.n)})
		switch k.random.IntN(4) {
		case 0: // the same event
			k.events = append(k.events, talkEvent{at + time.Second, event(k.n)})
		case 1: // the same words in another one
			k.n++
			k.events = append(k.events, talkEvent{at + 300*time.Millisecond, event(k.n)})
		}
		from = to + time.Duration(k.random.IntN(300))*time.Millisecond
	}
	k.want = append(k.want, who+":"+all.String())
	return from
}

// TestTwentyMinutes has both sides talk for twenty minutes: they overlap, words come late and in disorder, and many
// twice. The client gets what was said once and in order.
func TestTwentyMinutes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			k := talk{random: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // the same each time
			for at := 2 * time.Second; at < 20*time.Minute; {
				end := k.says(typeUserDelta, "user", at, 2+k.random.IntN(6), 900)
				begins := end + time.Duration(k.random.IntN(600))*time.Millisecond // the user's last words may still come
				at = k.says(typeVoiceDelta, "assistant", begins, 3+k.random.IntN(12), 400) + 3*time.Second
			}
			slices.SortStableFunc(k.events, func(a, b talkEvent) int { return int(a.at - b.at) })
			synctest.Test(t, func(t *testing.T) { k.listen(t) })
		})
	}
}

// listen plays the talk, and compares what the client gets.
func (k *talk) listen(t *testing.T) {
	t.Helper()
	b := newBench(t)
	b.dial()
	began := time.Now()
	for _, e := range k.events {
		time.Sleep(e.at - time.Since(began))
		b.peer.says(e.text)
	}
	time.Sleep(10 * time.Second)
	b.finish()
	var order []string
	texts, roles, done := map[string]string{}, map[string]string{}, map[string]int{}
	for _, raw := range b.events {
		ev, err := realtime.Decode([]byte(raw))
		testkit.Must(t, err)
		switch ev.Type {
		case realtime.TypeItemAdded:
			item, _ := realtime.DecodeItem(ev.Item)
			at := len(order)
			if i := slices.Index(order, ev.PreviousItemID); i >= 0 {
				at = i + 1
			}
			order, roles[item.ID] = slices.Insert(order, at, item.ID), item.Role
		case realtime.TypeTranscriptionDelta, realtime.TypeAudioTranscriptDelta:
			texts[ev.ItemID] += ev.Delta
		case realtime.TypeTranscriptionCompleted, realtime.TypeAudioTranscriptDone:
			done[ev.ItemID]++
		}
	}
	var got []string
	for _, id := range order {
		got = append(got, roles[id]+":"+sorted(texts[id]))
		testkit.Equal(t, done[id], 1, "%q was completed times", texts[id])
	}
	testkit.Equal(t, gocmp.Diff(k.want, got), "", "said")
}

// sorted puts words in the order of their numbers: a client gets late ones at the end, and the whole text with the
// item.
func sorted(text string) string {
	words := strings.Fields(text)
	number := func(word string) (n int) {
		_, _ = fmt.Sscanf(word[strings.LastIndex(word, "-")+1:], "%d", &n)
		return n
	}
	slices.SortStableFunc(words, func(a, b string) int { return number(a) - number(b) })
	return " " + strings.Join(words, " ")
}
