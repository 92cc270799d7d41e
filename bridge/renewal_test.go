package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/realtime/media"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// threadFold builds a thread from a call's changes, in order.
type threadFold struct {
	mu       sync.Mutex
	ids      []string
	messages map[string]thread.Message
	tools    map[string]thread.ToolCall
	legs     map[int64]records.Leg
	breaches []string
}

func (f *threadFold) ApplyAll(_ context.Context, groups []persistence.ThreadChanges) ([]persistence.Applied, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var saved []thread.Message
	for _, c := range groups[0].Changes {
		switch c := c.(type) {
		case persistence.PutMessage:
			f.place(c)
			saved = append(saved, c.Message)
		case persistence.PutToolCall:
			f.tools[c.ToolCall.ID] = c.ToolCall
		case persistence.PutLeg:
			f.legs[c.Leg.Generation] = c.Leg
		}
	}
	return []persistence.Applied{{Messages: saved}}, nil
}

func (f *threadFold) place(c persistence.PutMessage) {
	id := c.Message.ID
	known := slices.Contains(f.ids, id)
	switch at := c.Place; {
	case known: // it keeps its place: a text that had to wait for a session is placed again
	case at.How == persistence.PlaceKept:
		f.breaches = append(f.breaches, fmt.Sprintf("message %s has no place", id))
	case at.How == persistence.PlaceLast, at.How == persistence.PlaceAfter && at.After == "" && len(f.ids) == 0:
		f.ids = append(f.ids, id)
	case at.How == persistence.PlaceAfter:
		i := slices.Index(f.ids, at.After)
		if i < 0 {
			f.breaches = append(f.breaches, fmt.Sprintf("message %s after the unknown %q", id, at.After))
		}
		f.ids = slices.Insert(f.ids, i+1, id)
	}
	f.messages[id] = c.Message
}

// renewed is a call whose upstream session is replaced again and again.
type renewed struct {
	*bubble
	voice *voice
	fold  *threadFold
	typed []string
	seen  int            // events that the browser got
	kinds map[string]int // their number by type
}

func newRenewed(t *testing.T, v *voice) *renewed {
	t.Helper()
	r := &renewed{voice: v, kinds: map[string]int{}, fold: &threadFold{
		messages: map[string]thread.Message{}, tools: map[string]thread.ToolCall{}, legs: map[int64]records.Leg{},
	}}
	r.bubble = newBubble(t, func(b *bubble) {
		b.dialer.Upstream = v
		b.database = r.fold
		b.cfg.RenewBefore = 10 * time.Minute
		testkit.Must(t, b.registry.Add(toolkit.Entry{Tool: pausing{}, Executor: toolkit.ExecutorApp}))
	})
	r.until("bridge.ready", 1)
	return r
}

// pausing is a tool that takes two seconds.
type pausing struct{ slowTool }

func (pausing) Call(ctx context.Context, _ toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		select {
		case <-time.After(2 * time.Second):
			yield(toolkit.Chunk{Result: &toolkit.Result{Output: json.RawMessage(`{"ok":true}`)}}, nil)
		case <-ctx.Done():
			yield(toolkit.Chunk{}, context.Cause(ctx))
		}
	}
}

// count returns how many events of a type the browser has got.
func (r *renewed) count(kind string) int {
	r.browser.mu.Lock()
	defer r.browser.mu.Unlock()
	for ; r.seen < len(r.browser.sent); r.seen++ {
		var ev struct{ Type string }
		if json.Unmarshal([]byte(r.browser.sent[r.seen]), &ev) == nil {
			r.kinds[ev.Type]++
		}
	}
	return r.kinds[kind]
}

// until lets time pass until the browser has got n events of a type.
func (r *renewed) until(kind string, n int) {
	r.t.Helper()
	for range 100_000 {
		if r.count(kind) >= n {
			return
		}
		select {
		case <-r.done:
			r.t.Fatalf("the call ended because of %q before %d %s", r.reason, n, kind)
		case <-time.After(50 * time.Millisecond):
		}
	}
	r.t.Fatalf("%d %s, want %d", r.count(kind), kind, n)
}

// say types a text and asks for an answer.
func (r *renewed) say(text string) {
	r.typed = append(r.typed, text)
	id := fmt.Sprintf("typed_%d", len(r.typed))
	r.call.post(session.BrowserEvent{Gen: 1, Data: fmt.Appendf(nil, `{"type":"conversation.item.create","item":{"id":%q,"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}}`, id, text)})
	r.call.post(session.BrowserEvent{Gen: 1, Data: []byte(`{"type":"response.create"}`)})
}

// check ends the call and compares the thread with what was said: nothing is lost, nothing
// is there twice, and the order is that of the conversation.
func (r *renewed) check() {
	t := r.t
	t.Helper()
	time.Sleep(time.Minute) // virtual: the last answer is generated and played
	r.call.stop(EndHangup)
	r.end(EndHangup)
	var users []string
	answered := map[string]int{}
	for i, id := range r.fold.ids {
		m := r.fold.messages[id]
		if m.Metadata.Status == thread.StatusInProgress {
			t.Errorf("message %s is left in progress", id)
		}
		switch {
		case m.Role == thread.RoleUser:
			users = append(users, m.Text())
		case m.Metadata.Status == thread.StatusCompleted && strings.HasPrefix(m.Text(), "You said: "):
			utterances := strings.Split(strings.TrimPrefix(m.Text(), "You said: "), "; ")
			answered[utterances[len(utterances)-1]]++
			if want := users[max(0, len(users)-8):]; len(utterances) < len(want) || !slices.Equal(utterances[len(utterances)-len(want):], want) {
				t.Errorf("message %d: the model knows %q, the user said %q", i, utterances, want)
			}
		}
	}
	testkit.Equal(t, users, r.typed, "the user said %d texts, the thread has %d in this order", len(r.typed), len(users))
	if last := r.typed[len(r.typed)-1]; answered[last] == 0 {
		t.Errorf("the last text %q is not answered", last)
	}
	for text, n := range answered {
		// A text typed while a tool runs is answered, and then the tool's result is.
		if number, err := strconv.Atoi(strings.TrimPrefix(text, "text ")); n > 1 && err == nil && number%3 == 1 {
			t.Errorf("%q was answered %d times to the end", text, n)
		}
	}
	ended := map[string]int{}
	for _, call := range r.fold.tools {
		ended[string(call.Status)]++
	}
	if ended["running"] > 0 || ended["failed"] > 0 {
		t.Errorf("tool calls ended %v", ended)
	}
	for _, breach := range slices.Concat(r.voice.breaches, r.fold.breaches) {
		t.Error(breach)
	}
	testkit.Equal(t, len(r.fold.legs), len(r.voice.sessions), "upstream sessions, records")
	for gen, leg := range r.fold.legs {
		if leg.HungUpAt == nil || leg.EndedAt == nil {
			t.Errorf("upstream session %d: %+v", gen, leg)
		}
	}
	r.checkBrowser()
}

// checkBrowser looks for what the browser must not see: history, and two items with one
// id.
func (r *renewed) checkBrowser() {
	items := map[string]int{}
	for _, sent := range r.browser.sent {
		var ev struct {
			Type string
			Item struct{ ID string }
		}
		if json.Unmarshal([]byte(sent), &ev) != nil || ev.Type != "conversation.item.added" {
			continue
		}
		if items[ev.Item.ID]++; items[ev.Item.ID] > 1 || strings.Contains(ev.Item.ID, "h") {
			r.t.Errorf("the browser got %s", sent)
		}
	}
}

// TestPlannedRenewals talks through a hundred sessions that expire.
func TestPlannedRenewals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRenewed(t, &voice{lifetime: 11 * time.Minute})
		random := rand.New(rand.NewPCG(1, 2))
		for n := 0; r.count("bridge.upstream.renewed") < 100; n++ {
			kind := "text"
			if n%3 == 2 {
				kind = "tool"
			}
			r.say(fmt.Sprintf("%s %d", kind, n))
			time.Sleep(time.Duration(500+random.IntN(20_000)) * time.Millisecond)
		}
		if r.browser.has(`"reason":"upstream`) {
			t.Error("a session was lost")
		}
		r.check()
	})
}

// TestFrozenUpstream types until no more can wait for an upstream that reads nothing: it is replaced, and nothing is
// lost.
func TestFrozenUpstream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRenewed(t, &voice{})
		r.voice.last().frozen.Store(true)
		for n := range 260 {
			r.say(fmt.Sprintf("text %d %s", n, strings.Repeat("x", session.MaxInputText-16)))
		}
		began := time.Now()
		r.until("bridge.upstream.renewed", 1)
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("replaced after %v", waited)
		}
		r.check()
	})
}

// TestSuddenRenewals loses the upstream a hundred times, at any moment.
func TestSuddenRenewals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRenewed(t, &voice{})
		random := rand.New(rand.NewPCG(3, 4))
		for n := range 100 {
			kind := "text"
			if n%3 == 2 {
				kind = "tool"
			}
			r.say(fmt.Sprintf("%s %d", kind, n))
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
			switch n % 4 {
			case 0:
				r.voice.last().drop(media.StateFailed)
			case 1:
				r.voice.last().emit(`{"type":"error","error":{"type":"invalid_request_error","code":"session_expired","message":"Your session hit the maximum duration of 60 minutes."}}`)
			case 2:
				r.voice.mu.Lock()
				r.voice.refuse = []error{errBusy, errBusy}
				r.voice.mu.Unlock()
				r.voice.last().drop(media.StateFailed)
			default:
				r.voice.last().drop(media.StateClosed)
			}
			r.until("bridge.upstream.renewed", n+1)
			time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
			r.say(fmt.Sprintf("after %d", n))
			time.Sleep(2*time.Minute + time.Duration(random.IntN(1000))*time.Millisecond)
		}
		r.check()
	})
}
