package ws

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// created begins a session.
const created = `{"type":"session.created","session":{"id":"sess_1","type":"realtime"}}`

// script is an upstream that says what it is told to, and then reads until its client is gone.
func script(t *testing.T, events func(say func(kind websocket.MessageType, data []byte))) *Client {
	t.Helper()
	var open sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Done()
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		events(func(kind websocket.MessageType, data []byte) { _ = conn.Write(context.Background(), kind, data) })
		for {
			if _, _, err := conn.Read(context.Background()); err != nil {
				return
			}
		}
	}))
	t.Cleanup(func() { server.Close(); open.Wait() })
	return &Client{URL: server.URL, Profile: Profile{Name: "realtime"}, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// TestHostileDial connects to what is no upstream: that is an error within the time of the dial, and nothing is left.
func TestHostileDial(t *testing.T) {
	t.Parallel()
	const text, binary = websocket.MessageText, websocket.MessageBinary
	for name, tt := range map[string]struct {
		events func(say func(websocket.MessageType, []byte))
		want   error // nil stands for any of another package
	}{
		"nothing": {func(func(websocket.MessageType, []byte)) {}, context.DeadlineExceeded},
		"other events": {func(say func(websocket.MessageType, []byte)) {
			for range maxBefore {
				say(text, []byte(`{"type":"ping"}`))
			}
		}, ErrNoSession},
		"no JSON": {func(say func(websocket.MessageType, []byte)) {
			for range maxBefore {
				say(binary, []byte{0xff, 0})
			}
		}, ErrNoSession},
		"too much": {func(say func(websocket.MessageType, []byte)) { say(text, bytes.Repeat([]byte(" "), maxRead+1)) }, nil},
		"a refusal": {func(say func(websocket.MessageType, []byte)) {
			say(text, []byte(`{"type":"error","error":{"code":"insufficient_quota","message":"Pay."}}`))
		}, nil},
		"sound before": {func(say func(websocket.MessageType, []byte)) {
			for range maxBefore {
				say(text, []byte(`{"type":"response.output_audio.delta","response_id":"r","item_id":"i","delta":"`+strings.Repeat("AAAA", 16<<10)+`"}`))
			}
		}, ErrNoSession},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := script(t, tt.events)
			limit := 2 * time.Minute
			if errors.Is(tt.want, context.DeadlineExceeded) {
				limit = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if _, err := client.Dial(ctx, "", ""); err == nil || tt.want != nil && !errors.Is(err, tt.want) || tt.want == nil && ctx.Err() != nil {
				t.Errorf("Dial: %v", err)
			}
			testkit.Equal(t, client.shared.used.Load(), 0, "bytes are not given back")
		})
	}
}

// TestHostileUpstream has one session say what no upstream should: it goes on, or ends with a reason, and another one
// of the same upstream does not notice.
func TestHostileUpstream(t *testing.T) {
	t.Parallel()
	odd := []string{
		"", "x", "[", "{}", "null", strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 100_000), `{"type":7}`, "{\"type\":\"\xff\xfe\"}",
		`{"type":"response.output_audio.delta"}`, `{"type":"response.output_audio.delta","delta":"!"}`, `{"type":"response.output_audio.delta","delta":["AAAA"]}`,
		`{"type":"response.output_audio.delta","delta":"AA=="}`, `{"type":"response.done","response":7}`, `{"type":"response.done"}`, `{"type":"session.updated","session":[]}`,
		`{"type":"input_audio_buffer.speech_started"}`, `{"type":"input_audio_buffer.speech_stopped"}`, `{"type":"error"}`, `{"type":"error","error":"x"}`,
		`{"type":"response.output_audio.done","content_index":-1}`, `{"type":"conversation.item.input_audio_transcription.updated","transcript":7}`,
	}
	for name, tt := range map[string]struct {
		data [][]byte
		ends bool
	}{
		"odd events": {data: func() (all [][]byte) {
			for _, s := range odd {
				all = append(all, []byte(s))
			}
			return all
		}()},
		"a large event": {[][]byte{bytes.Repeat([]byte(" "), maxRead+1)}, true},
		"a flood":       {data: slices.Repeat([][]byte{[]byte(`{"type":"rate_limits.updated","rate_limits":[]}`)}, 20_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := make(chan struct{})
			var first sync.Once
			client := script(t, func(say func(websocket.MessageType, []byte)) {
				say(websocket.MessageText, []byte(created))
				hostile := false
				first.Do(func() { hostile = true })
				<-begin
				for _, data := range tt.data {
					if hostile {
						say(websocket.MessageText, data)
					}
				}
				say(websocket.MessageText, []byte(`{"type":"response.created","response":{"id":"last"}}`))
			})
			dial := func() (last <-chan struct{}, ended <-chan media.State, c *Conn) {
				c, err := client.Dial(t.Context(), "", "")
				testkit.Must(t, err)
				came, states := make(chan struct{}), make(chan media.State, 8)
				c.Start(media.Handlers{
					Message: func(data []byte) {
						if ev, err := realtime.Decode(data); err != nil {
							t.Errorf("the client gets %.100q: %v", data, err)
						} else if ev.Type == realtime.TypeResponseCreated {
							close(came)
						}
					},
					State: func(s media.State) { states <- s },
				})
				t.Cleanup(func() { _ = c.Close() })
				return came, states, c
			}
			last, states, _ := dial()
			other, _, neighbour := dial()
			close(begin)
			testkit.Take(t, "the other", other)
			if tt.ends {
				if a, b := testkit.Take(t, "a state", states), testkit.Take(t, "a state", states); a != media.StateConnected || b != media.StateFailed {
					t.Errorf("%v, %v", a, b)
				}
			} else {
				testkit.Take(t, "the last", last)
			}
			if err := neighbour.Send(t.Context(), []byte(`{"type":"response.create"}`)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestUpstreamFloods has an upstream send without end to a call that takes nothing: what waits is bounded, in number
// and in bytes, whatever its parts are.
func TestUpstreamFloods(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 32<<10) // more bytes than may wait before as many as may wait have come
	for name, event := range map[string]func(i int) string{
		"events":       func(i int) string { return fmt.Sprintf(`{"type":"x","n":%d}`, i) },
		"large events": func(i int) string { return fmt.Sprintf(`{"type":"x","n":%d,"text":"%s"}`, i, large) },
		"sound of one byte": func(int) string {
			return `{"type":"response.output_audio.delta","response_id":"r","item_id":"i","delta":"AA=="}`
		},
		"sound of many items": func(i int) string {
			return fmt.Sprintf(`{"type":"response.output_audio.delta","response_id":"r","item_id":"i%d","delta":"AA=="}`, i)
		},
		"empty sound": func(i int) string {
			return fmt.Sprintf(`{"type":"response.output_audio.delta","response_id":"r","item_id":"i%d","delta":""}`, i)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				up := newFakeSocket()
				c := newConn(up, Profile{}.withDefaults(), "", new(shared), nil)
				release := make(chan struct{})
				c.Start(media.Handlers{Message: func([]byte) { <-release }}) // and nothing is played
				for i := range 3000 {
					if i%1000 == 0 {
						synctest.Wait()
					}
					up.say("%s", event(i))
				}
				synctest.Wait()
				c.inbox.mu.Lock()
				if n, size := len(c.inbox.events), c.inbox.bytes; n > maxInbox || size > maxInboxBytes+len(large)+100 {
					t.Errorf("%d events wait, %d bytes", n, size)
				}
				c.inbox.mu.Unlock()
				c.play.mu.Lock()
				pieces := 0
				for _, u := range c.play.queue {
					pieces += len(u.sound)
				}
				if len(c.play.queue) > maxUtterances || pieces > maxUtterances {
					t.Errorf("%d parts wait, in %d pieces", len(c.play.queue), pieces)
				}
				c.play.mu.Unlock()
				c.play.mu.Lock()
				if n := len(c.play.sounds); n > remembered {
					t.Errorf("the lengths of %d items are remembered", n)
				}
				c.play.mu.Unlock()
				close(release)
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// echo is a socket that says what it is told to.
type echo struct {
	socket

	says string
}

func (e echo) Read(context.Context) ([]byte, error) { return []byte(e.says), nil }

// TestDiscreet: no event of an upstream has the key in it, nor what further headers say.
func TestDiscreet(t *testing.T) {
	t.Parallel()
	got, err := discreet{echo{says: `{"type":"error","error":{"message":"xai-key-of-tests, header-of-tests"}}`}, []string{"xai-key-of-tests", "header-of-tests"}}.Read(t.Context())
	if want := `{"type":"error","error":{"message":"[key], [key]"}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}
