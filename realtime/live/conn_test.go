package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
)

// TestSilence keeps the clock of a session running: without a hole of 250 ms, and without silence in the middle of
// speech that comes unevenly.
func TestSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.dial()
		time.Sleep(2 * time.Second)
		source := media.NewSource()
		for i := range uint16(100) { // 2 s that come in bursts of 140 ms
			if i%7 == 0 {
				time.Sleep(140 * time.Millisecond)
			}
			if err := b.conn.WriteAudio(&media.Packet{Source: source, Sequence: i, Timestamp: uint32(i) * media.FrameStep, Payload: []byte{1, 2, 3}}); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute) // muted
		b.finish()
		b.peer.mu.Lock()
		defer b.peer.mu.Unlock()
		spoken, interleaved, last := 0, 0, b.peer.packets[0].at
		for _, p := range b.peer.packets {
			if gap := p.at.Sub(last); gap >= 250*time.Millisecond {
				t.Errorf("a hole of %v", gap)
			}
			last = p.at
			switch isSilence := string(p.Payload) == string(silence); {
			case !isSilence:
				spoken++
			case spoken > 0 && spoken < 100:
				interleaved++
			}
		}
		if n := len(b.peer.packets); spoken != 100 || interleaved > 0 || n < 3100 {
			t.Errorf("%d packets, of which %d are speech with %d of silence between", n, spoken, interleaved)
		}
	})
}

// TestPauses keeps the clock exact through silence that the caller does not send (DTX).
func TestPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.dial()
		source, began, sequence := media.NewSource(), time.Now(), uint16(0)
		for i := range 1000 { // 20 s, of which each fourth is spoken
			silent := i%200 - 50
			if silent < 0 || silent%20 < 2 {
				payload := []byte{0xf8, 0xff, 0xfe}
				if silent == 0 || silent > 0 && silent%20 == 1 {
					payload = payload[:1]
				}
				sequence++
				if err := b.conn.WriteAudio(&media.Packet{Source: source, Sequence: sequence, Timestamp: uint32(i) * media.FrameStep, Payload: payload}); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(media.FrameTime)
			if off := b.conn.sound.position() - time.Since(began); off.Abs() > 4*media.FrameTime {
				t.Errorf("after %s the clock is off by %s", time.Since(began), off)
			}
		}
		b.finish()
	})
}

// TestHistory gives a session as much of a history as it takes.
func TestHistory(t *testing.T) {
	t.Parallel()
	many := []Message{{"developer", "Be brief."}}
	for range 140 {
		many = append(many, Message{"user", "Hello."}, Message{"assistant", "Hi."})
	}
	long := []Message{{"user", strings.Repeat("word ", 40_000)}, {"assistant", strings.Repeat("答", 5000)}, {"user", strings.Repeat("word ", 1000)}}
	for name, history := range map[string][]Message{"none": nil, "many": many, "long": long, "short": many[:3]} {
		all := input(history)
		total := 0
		for _, m := range all {
			content := m["content"].([]tree)
			text := content[0]["text"].(string)
			total += tokens(text)
			if want := map[any]string{"assistant": "output_text"}[m["role"]]; want == "" && content[0]["type"] != "input_text" || want != "" && content[0]["type"] != want {
				t.Errorf("%s: %v", name, m)
			}
		}
		if len(all) > 128 || total > 8192 || (len(all) == 0) != (history == nil) {
			t.Errorf("%s: %d messages of %d tokens", name, len(all), total)
		}
		if len(all) > 0 && all[len(all)-1]["role"] != "developer" {
			t.Errorf("%s: nothing says that all of it was said", name)
		}
	}
	if first := input(many)[0]; first["role"] != "developer" {
		t.Errorf("the history begins with %v", first)
	}
}

// TestPieces cuts what a session is told.
func TestPieces(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("A sentence of some words. ", 80), strings.Repeat("長い文です。", 400), strings.Repeat("x", 5000), "short", ""} {
		parts := pieces(text)
		for _, p := range parts {
			if tokens(p) > 500 || p == "" {
				t.Errorf("a part of %d tokens: %.20q", tokens(p), p)
			}
		}
		squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if squeeze(strings.Join(parts, "")) != squeeze(text) {
			t.Errorf("%.20q is not whole", text)
		}
	}
}

// TestCreation creates a session with all that it has, and once more without a history that is refused.
func TestCreation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.client.HTTP = &http.Client{Transport: roundTrip(func(r *http.Request) (int, string) {
			body, _ := io.ReadAll(r.Body)
			if b.posted = append(b.posted, string(body)); len(b.posted) == 1 {
				return http.StatusBadRequest, `{"error":{"type":"invalid_request_error","code":"invalid_value","message":"too long","param":"session.input"}}`
			}
			return http.StatusCreated, created
		})}
		b.dial(Message{"user", "Before."})
		b.finish()
		var first, second struct{ Session map[string]json.RawMessage }
		testkit.Must(t, errors.Join(json.Unmarshal([]byte(b.posted[0]), &first), json.Unmarshal([]byte(b.posted[1]), &second)))
		if first.Session["input"] == nil || second.Session["input"] != nil {
			t.Errorf("%s\nthen %s", b.posted[0], b.posted[1])
		}
		for path, want := range map[string]string{
			"model": `"gpt-live-1.1"`, "delegation": `{"type":"client"}`, "audio.output.voice": `"marin"`,
		} {
			raw, _ := json.Marshal(second.Session)
			if got := realtime.Member(raw, strings.Split(path, ".")...); string(got) != want {
				t.Errorf("%s is %s", path, got)
			}
		}
	})
}

// TestUnusable has sessions dropped that were created and cannot be used, and ended.
func TestUnusable(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*bench)
		want   error
		param  string
		took   time.Duration
	}{
		"no answer":    {change: func(b *bench) { b.peer.refuses = errors.New("bad SDP") }},
		"never starts": {change: func(b *bench) { b.peer.silent = true }, want: ErrNotStarted, took: startTimeout},
		"begins to fail": {change: func(b *bench) {
			b.peer.first = `{"type":"error","error":{"code":"credit_balance_exhausted","message":"none"}}`
		}},
		"closed at once":  {change: func(b *bench) { b.peer.first = `{"type":"session.closed","reason":"content","usage":{"seconds":1}}` }, want: ErrEnded},
		"cannot be saved": {change: func(*bench) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				tt.change(b)
				s := b.session()
				if name == "cannot be saved" {
					s.Created = func(string) error { return errors.New("no database") }
				}
				began := time.Now()
				_, err := b.client.Dial(t.Context(), s)
				if err == nil || tt.want != nil && !errors.Is(err, tt.want) || time.Since(began) != tt.took {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				if len(b.dropped) != 1 {
					t.Fatalf("%d sessions dropped", len(b.dropped))
				}
				ending := make(chan struct{})
				close(ending)
				asked := name == "closed at once" || strings.Contains(strings.Join(b.peer.sent(), ""), typeClose)
				b.client.HTTP = &http.Client{Transport: roundTrip(func(r *http.Request) (int, string) {
					asked = asked || strings.HasSuffix(r.URL.Path, "/live_1/attach")
					return http.StatusNotFound, "{}"
				})}
				began = time.Now()
				b.client.Finish(b.dropped[0], ending)
				if asked = asked || strings.Contains(strings.Join(b.peer.sent(), ""), typeClose); !asked || time.Since(began) > 15*time.Second {
					t.Errorf("after %v the session was asked to end: %t", time.Since(began), asked)
				}
			})
		})
	}
}

// TestEnd ends sessions, which say what they have cost, or do not.
func TestEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.dial()
		time.Sleep(time.Minute)
		b.peer.says(`{"type":"session.usage.updated","event_id":"a","usage":{"seconds":48}}`)
		b.peer.says(`{"type":"session.usage.updated","event_id":"b","usage":{"seconds":36}}`)
		if u := b.finish(); u != (Usage{61500 * time.Millisecond, true}) {
			t.Errorf("%+v", u)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.peer.deaf = true
		b.dial()
		time.Sleep(time.Minute)
		began := time.Now()
		if u := b.finish(); u.Reported || u.Length != time.Minute+closeTimeout || time.Since(began) != closeTimeout {
			t.Errorf("%+v after %v", u, time.Since(began))
		}
	})
}

// TestLoss has sessions end by themselves that are of no use any more.
func TestLoss(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		play func(b *bench)
		want media.State
		tell string
	}{
		"stalled": {want: media.StateFailed, play: func(b *bench) {
			for i := range 4 {
				b.peer.says(`{"type":"session.usage.updated","event_id":"u` + string(rune('0'+i)) + `","usage":{"seconds":12}}`)
				time.Sleep(6 * time.Second)
			}
		}},
		"silent": {want: media.StateFailed, play: func(b *bench) {
			b.conn.TrySend([]byte(`{"type":"response.create","response":{"instructions":"Greet."}}`))
			time.Sleep(firstSound + time.Second)
		}},
		"expired": {want: media.StateClosed, tell: "session_expired", play: func(b *bench) {
			b.peer.says(`{"type":"session.closed","reason":"expired","usage":{"seconds":3}}`)
		}},
		"content": {want: media.StateClosed, tell: "session_closed", play: func(b *bench) {
			b.peer.says(`{"type":"session.closed","reason":"content"}`)
		}},
		"lost": {want: media.StateFailed, play: func(b *bench) { b.peer.h.State(media.StateFailed) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.dial()
				tt.play(b)
				synctest.Wait()
				b.mu.Lock()
				testkit.Equal(t, b.states[len(b.states)-1], tt.want, "the connection")
				if all := strings.Join(b.events, "\n"); tt.tell != "" && !strings.Contains(all, tt.tell) {
					t.Errorf("the client learns:\n%s", all)
				}
				b.mu.Unlock()
				ending := make(chan struct{})
				close(ending)
				b.client.HTTP = &http.Client{Transport: roundTrip(func(*http.Request) (int, string) { return http.StatusNotFound, "{}" })}
				b.client.Finish(b.conn, ending)
			})
		})
	}
}

// TestHeld keeps the model's sound back while the caller speaks over it, which their sound or their words show.
func TestHeld(t *testing.T) {
	t.Parallel()
	for name, speak := range map[string]func(b *bench){
		"words": func(b *bench) {
			b.peer.says(`{"type":"session.input_transcript.delta","delta":" Stop","start_ms":800,"end_ms":1000}`)
		},
		"sound": func(b *bench) { b.conn.sound.begins() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.dial()
				heard := 0
				out := relay{&b.conn.sound, sinkFunc(func(*media.Packet) error { heard++; return nil })}
				hears := func(want bool) {
					t.Helper()
					synctest.Wait()
					before := heard
					if _ = out.WriteAudio(&media.Packet{}); (heard > before) != want {
						t.Errorf("the model is heard: %v", !want)
					}
				}
				b.conn.sound.begins() // over nothing
				hears(true)
				time.Sleep(time.Second)
				b.peer.says(`{"type":"session.output_transcript.delta","delta":"One two three","start_ms":0,"end_ms":900}`)
				hears(true)
				speak(b)
				hears(false)
				time.Sleep(3 * time.Second) // it has stopped: the next answer is heard from its beginning
				hears(true)
				b.finish()
			})
		})
	}
}

// TestOverlap has the caller be heard over an answer whose words were told before its sound: unless they interrupt it,
// none of the sound is lost, and what they heard of it is what was played.
func TestOverlap(t *testing.T) {
	t.Parallel()
	const agrees = `{"type":"session.input_transcript.delta","delta":" mm-hm","start_ms":900,"end_ms":1000}`
	noise := func(b *bench) { b.conn.sound.begins() }
	words := func(b *bench) { b.peer.says(agrees) }
	plays := func(b *bench) { // without a pause
		if b.conn.sound.passes != heard {
			t.Error("a noise without words holds an answer twice")
		}
	}
	for name, tt := range map[string]struct {
		at    map[int]func(b *bench) // what the caller does, by the packet of the answer
		ends  int                    // the packet after which the model is silent
		lost  bool
		heard string
	}{
		"a noise":                 {at: map[int]func(*bench){50: noise}, ends: 300},
		"a noise again and again": {at: map[int]func(*bench){50: noise, 110: noise, 111: plays, 170: noise, 171: plays}, ends: 300},
		"it is agreed with":       {at: map[int]func(*bench){50: words}, ends: 300},
		"noise, then words":       {at: map[int]func(*bench){50: noise, 70: words}, ends: 300},
		"it goes on over words": {ends: 300, at: map[int]func(*bench){50: words, 80: func(b *bench) {
			for i := range 8 {
				time.AfterFunc(time.Duration(i)*time.Second/2, func() {
					b.peer.says(fmt.Sprintf(`{"type":"session.input_transcript.delta","delta":" on","start_ms":%d,"end_ms":%d}`, 1500+i*500, 1800+i*500))
				})
			}
		}}},
		"it is stopped": {at: map[int]func(*bench){50: words}, ends: 70, lost: true, heard: "one two"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			encoder, err := opus.NewEncoder(48000)
			testkit.Must(t, err)
			speech := make([]int16, media.FrameStep)
			for i := range speech {
				speech[i] = int16(i%96-48) * 100
			}
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.dial()
				var played []uint16
				out := relay{&b.conn.sound, sinkFunc(func(p *media.Packet) error { played = append(played, p.Sequence); return nil })}
				b.peer.says(`{"type":"session.output_transcript.delta","delta":"one two","start_ms":0,"end_ms":800}`)
				b.peer.says(`{"type":"session.output_transcript.delta","delta":" three four five","start_ms":800,"end_ms":6000}`)
				for i := range 500 {
					if do := tt.at[i]; do != nil {
						do(b)
					}
					payload := silence
					if i < tt.ends {
						if payload, err = encoder.Encode(speech); err != nil {
							t.Fatal(err)
						}
					}
					if err := out.WriteAudio(&media.Packet{Sequence: uint16(i), Payload: payload}); err != nil { //nolint:gosec // few
						t.Fatal(err)
					}
					time.Sleep(media.FrameTime)
				}
				b.finish()
				all := strings.Join(b.events, "\n")
				if lost := len(played) < 500; lost != tt.lost || !slices.IsSorted(played) {
					t.Errorf("%d packets of 500 were played: %v", len(played), played)
				}
				if cut := strings.Contains(all, realtime.TypeItemTruncated); cut != tt.lost || cut && !strings.Contains(all, `"transcript":"`+tt.heard+`"`) {
					t.Errorf("the client learns:\n%s", all)
				}
			})
		})
	}
}

type sinkFunc func(*media.Packet) error

func (f sinkFunc) WriteAudio(p *media.Packet) error { return f(p) }

// TestAttach ends the session of an earlier process.
func TestAttach(t *testing.T) {
	t.Parallel()
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key" || r.URL.Path != "/v1/live/sessions/live_1/attach" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		_ = conn.Write(r.Context(), websocket.MessageText, []byte(`{"type":"session.started","session":{"id":"live_1"}}`))
		_, data, err := conn.Read(r.Context())
		if err != nil || !strings.Contains(string(data), `"session.close"`) {
			t.Errorf("%s %v", data, err)
		}
		_ = conn.Write(r.Context(), websocket.MessageText, []byte(`{"type":"session.closed","reason":"close_requested","usage":{"seconds":12.5}}`))
	}))
	defer ts.Close()
	client := &Client{URL: ts.URL + "/v1/live/sessions", APIKey: "key", HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if u, err := client.HangUp(ctx, "live_1"); err != nil || u != (Usage{12500 * time.Millisecond, true}) {
		t.Errorf("%+v %v", u, err)
	}
	if u, err := client.HangUp(ctx, "live_gone"); err != nil || u.Reported {
		t.Errorf("%+v %v", u, err)
	}
}
