package phone

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipes is a listener in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// talk is a stream between a carrier and a call, in a bubble.
type talk struct {
	t      *testing.T
	stream *Stream
	first  *websocket.Conn
	dial   func() *websocket.Conn // another socket that the stream gets

	mu     sync.Mutex
	got    []string // what the carrier got, sounds as their lengths in ms
	sound  []byte   // of the caller, as the call got it
	events []string // what the call got, sounds as above, one after the other as one
	status websocket.StatusCode
	keys   []string
	gone   []time.Duration // since the beginning
}

func inBubble(t *testing.T, test func(*talk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		k := &talk{t: t}
		k.stream = NewStream(Config{
			Carrier: twilio{}, Start: Message{Kind: Start, Call: "CA1", Stream: "MZ1", Format: ulaw}, Grace: 30 * time.Second, Log: slog.New(slog.DiscardHandler),
			Keys: func(keys string) { k.note(func() { k.keys = append(k.keys, keys) }) },
			Gone: func() { k.note(func() { k.gone = append(k.gone, time.Since(began)) }); _ = k.stream.CloseNow() },
		})
		var all sync.WaitGroup
		listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		sockets := make(chan *websocket.Conn, 1)
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, err := websocket.Accept(w, r, nil)
			must(t, err)
			sockets <- conn
		})}
		all.Go(func() { _ = server.Serve(listener) })
		k.dial = func() *websocket.Conn {
			client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				listener.conns <- far
				return near, nil
			}}}
			conn, _, err := websocket.Dial(t.Context(), "ws://carrier/", &websocket.DialOptions{HTTPClient: client}) //nolint:bodyclose // of a socket
			must(t, err)
			all.Go(func() { k.carry(conn) })
			return conn
		}
		first := k.dial()
		all.Go(func() { k.stream.Run(<-sockets, func() { k.call() }) })
		synctest.Wait()
		dial := k.dial
		k.dial = func() *websocket.Conn {
			conn := dial()
			all.Go(func() { k.stream.Attach(<-sockets) })
			synctest.Wait()
			return conn
		}
		k.put(first, `{"event":"connected"}`)
		defer all.Wait()
		defer func() { _ = listener.Close(); _ = server.Close() }()
		defer func() { _ = k.stream.CloseNow() }()
		k.first = first
		test(k)
	})
}

func (k *talk) note(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

func (k *talk) put(conn *websocket.Conn, message string) {
	k.t.Helper()
	must(k.t, conn.Write(k.t.Context(), websocket.MessageText, []byte(message)))
}

// carry reads as the carrier.
func (k *talk) carry(conn *websocket.Conn) {
	for {
		_, data, err := conn.Read(context.Background())
		if err != nil {
			k.note(func() { k.status = websocket.CloseStatus(err) })
			return
		}
		var m struct {
			Event string
			Media struct{ Payload []byte }
		}
		_ = json.Unmarshal(data, &m)
		k.note(func() {
			if k.got = append(k.got, m.Event); m.Event == "media" {
				k.got[len(k.got)-1] = fmt.Sprint(len(m.Media.Payload) / 8)
			}
		})
	}
}

// call reads as the call.
func (k *talk) call() {
	sum := 0
	for {
		data, _, err := k.stream.Read(context.Background())
		if err != nil {
			return
		}
		var e struct {
			Type, ItemID string
			Item         string `json:"item_id"`
			End          int    `json:"audio_end_ms"`
			Audio        []byte
		}
		_ = json.Unmarshal(data, &e)
		k.note(func() {
			if e.Type == "input_audio_buffer.append" {
				if sum == 0 {
					k.events = append(k.events, "")
				}
				sum += len(e.Audio) / 8
				k.sound = append(k.sound, e.Audio...)
				k.events[len(k.events)-1] = fmt.Sprint(sum)
				return
			}
			sum = 0
			k.events = append(k.events, fmt.Sprint(e.Type, " ", e.Item, " ", e.End))
		})
	}
}

func (k *talk) says(format string, args ...any) {
	k.t.Helper()
	must(k.t, k.stream.Write(k.t.Context(), fmt.Appendf(nil, format, args...)))
}

// answers has the call send sound of an answer.
func (k *talk) answers(response string, ms int) {
	k.t.Helper()
	k.says(`{"type":"response.output_audio.delta","response_id":%q,"item_id":"of-%s","delta":%q}`, response, response, base64.StdEncoding.EncodeToString(sound(ms)))
	k.says(`{"type":"response.output_audio.done","response_id":%q}`, response)
}

func (k *talk) want(what string, got func() any, want string) {
	k.t.Helper()
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	testkit.Equal(k.t, fmt.Sprint(got()), want, "%s", what)
}

// transfers has the caller connected with another number, for which the carrier is asked without success if err is set.
func (k *talk) transfers(err error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- k.stream.Transfer(k.t.Context(), "+493055555555", func() error { return err }) }()
	synctest.Wait()
	return done
}

// pass lets time pass.
func pass(d time.Duration) { <-time.After(d) }

func TestStream(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(k *talk){
		"keys": func(k *talk) {
			for _, key := range "12" {
				k.put(k.first, fmt.Sprintf(`{"event":"dtmf","dtmf":{"digit":"%c"}}`, key))
				pass(1900 * time.Millisecond)
			}
			k.want("too early", func() any { return k.keys }, "[]")
			pass(200 * time.Millisecond)
			for _, key := range "3#" + strings.Repeat("4", 40) {
				k.put(k.first, fmt.Sprintf(`{"event":"dtmf","dtmf":{"digit":"%c"}}`, key))
			}
			pass(3 * time.Second)
			k.want("keys", func() any { return k.keys }, "[12 3# "+strings.Repeat("4", 32)+" "+strings.Repeat("4", 8)+"]")
		},
		"keys that nobody is to hear": func(k *talk) {
			k.stream.cfg.Mask = true
			speaks := func(want string) {
				k.t.Helper()
				k.put(k.first, `{"event":"media","media":{"payload":"`+base64.StdEncoding.EncodeToString([]byte{1, 2})+`"}}`)
				k.want("heard", func() any { return k.sound[len(k.sound)-2:] }, want)
			}
			speaks("[1 2]")
			k.put(k.first, `{"event":"dtmf","dtmf":{"digit":"4"}}`)
			speaks("[255 255]")
			pass(400 * time.Millisecond)
			k.put(k.first, `{"event":"dtmf","dtmf":{"digit":"7"}}`)
			speaks("[255 255]")
			k.put(k.first, `{"event":"dtmf","dtmf":{"digit":"#"}}`)
			speaks("[1 2]")
			k.put(k.first, `{"event":"dtmf","dtmf":{"digit":"1"}}`)
			pass(2100 * time.Millisecond)
			speaks("[1 2]")
			k.want("keys", func() any { return k.keys }, "[47# 1]")
		},
		"as sipgate's bridge comes back": func(k *talk) { // after a second, with the same stream, and times that begin anew
			media := func(conn *websocket.Conn, at int) {
				k.put(conn, fmt.Sprintf(`{"event":"media","sequenceNumber":%d,"streamSid":"MZ1","media":{"track":"inbound","chunk":"%d","timestamp":"%d","payload":%q}}`, at, at/20, at, base64.StdEncoding.EncodeToString(sound(20))))
			}
			for at := range 10 {
				media(k.first, 5000+20*at)
				pass(20 * time.Millisecond)
			}
			must(k.t, k.first.CloseNow())
			pass(400 * time.Millisecond)
			conn := k.dial()
			k.put(conn, `{"event":"connected","protocol":"Call","version":"1.0.0"}`)
			k.put(conn, `{"event":"start","sequenceNumber":"1","streamSid":"MZ1","start":{"streamSid":"MZ1","accountSid":"AC1","callSid":"CA1","tracks":["inbound","outbound"],"customParameters":{"From":"+1","To":"+2","sipCallId":"a@b","CallSid":"CA1"},"mediaFormat":{"encoding":"audio/x-mulaw","sampleRate":8000,"channels":1}}}`)
			for at := range 10 {
				media(conn, 20*at)
			}
			k.put(conn, `{"event":"media","media":{"track":"outbound","payload":"AQI="}}`)
			k.put(conn, `{"event":"mark","streamSid":"MZ1","mark":{"name":"item_1:160"}}`) // of another program
			k.put(conn, `{"event":"mark","streamSid":"MZ1"}`)
			k.put(conn, `{"event":"transferred"}`)
			k.want("events", func() any { return k.events }, "[400]")
			k.put(conn, `{"event":"stop","sequenceNumber":"","streamSid":"MZ1","stop":{}}`)
			k.want("gone", func() any { return k.gone }, "[600ms]")
		},
		"marks that come late, twice and in no order": func(k *talk) {
			k.answers("r", 300)
			pass(time.Second)
			k.answers("s", 300)
			pass(time.Second)
			for _, name := range []string{"m2", "m1", "m1", "m3", ""} {
				k.put(k.first, `{"event":"mark","streamSid":"MZ1","mark":{"name":"`+name+`"}}`)
			}
			k.says(`{"type":"input_audio_buffer.speech_started"}`)
			k.want("what the carrier got", func() any { return k.got }, "[100 100 100 mark 100 100 100 mark]")
		},
		"the carrier's end": func(k *talk) {
			pass(time.Second)
			k.put(k.first, `{"event":"stop","stop":{}}`)
			k.want("gone", func() any { return k.gone }, "[1s]")
			testkit.Equal(k.t, k.stream.Over(), true, "over")
		},
		"a lost socket": func(k *talk) {
			pass(time.Second)
			must(k.t, k.first.CloseNow())
			pass(29 * time.Second)
			k.want("too early", func() any { return k.gone }, "[]")
			pass(2 * time.Second)
			k.want("gone", func() any { return k.gone }, "[31s]")
			testkit.Equal(k.t, k.stream.Over(), false, "over")
		},
		"what is no message": func(k *talk) {
			k.put(k.first, "hello")
			k.want("closed", func() any { return k.status }, "StatusPolicyViolation")
			pass(31 * time.Second)
			k.want("gone", func() any { return k.gone }, "[30s]")
		},
		"a socket that comes back": func(k *talk) {
			start := Message{Kind: Start, Call: "CA1", Stream: "MZ1"}
			talks := time.AfterFunc(time.Second, func() { k.put(k.first, `{"event":"media","media":{"payload":"AQI="}}`) })
			testkit.Equal(k.t, k.stream.Takes(start), false, "beside the first")
			talks.Reset(0)
			time.AfterFunc(time.Second, func() { must(k.t, k.first.CloseNow()) })
			testkit.Equal(k.t, k.stream.Takes(start), true, "the same, before its loss is noticed")
			pass(17 * time.Second)
			for _, bad := range []Message{{Call: "CA2", Stream: "MZ1"}, {Call: "CA1", Stream: "MZ2"}, {}} {
				testkit.Equal(k.t, k.stream.Takes(bad), false, "%+v", bad)
			}
			testkit.Equal(k.t, k.stream.Takes(start), true, "the same")
			conn := k.dial()
			k.answers("r", 200)
			pass(time.Minute)
			k.want("gone", func() any { return k.gone }, "[]")
			k.want("what the carrier got", func() any { return k.got }, "[100 100 mark]")
			k.put(conn, `{"event":"stop"}`)
			k.want("gone", func() any { return k.gone }, "[1m20.04s]")
		},
		"a socket that says nothing": func(k *talk) {
			pass(3 * time.Second)
			testkit.Equal(k.t, k.stream.Takes(Message{Call: "CA1", Stream: "MZ1"}), true, "another")
			k.dial()
			pass(time.Minute)
			k.want("gone", func() any { return k.gone }, "[]")
		},
		"a transfer": func(k *talk) {
			done := k.transfers(nil)
			k.put(k.first, `{"event":"stop","stop":{}}`) // of the stream alone
			pass(20 * time.Second)
			k.want("gone", func() any { return k.gone }, "[]")
			testkit.Equal(k.t, fmt.Sprint(k.stream.Moved(""), k.stream.Moved(""), k.stream.Moved("busy"), k.stream.Over()), "false false false true", "moved")
			testkit.Equal(k.t, <-done, nil, "the transfer")
			pass(time.Minute)
			k.want("gone", func() any { return k.gone }, "[]")
		},
		"a transfer that fails": func(k *talk) {
			done := k.transfers(nil)
			testkit.Equal(k.t, k.stream.Transfer(k.t.Context(), "+4930", nil).Error(), "busy", "another one")
			k.put(k.first, `{"event":"stop","stop":{}}`)
			pass(20 * time.Second)
			other := Message{Call: "CA1", Stream: "MZ2"}
			testkit.Equal(k.t, k.stream.Takes(other), false, "another stream, too early")
			testkit.Equal(k.t, fmt.Sprint(k.stream.Moved("no_answer"), k.stream.Moved("no_answer"), k.stream.Over(), k.stream.Moving()), "true true false", "moved")
			testkit.Equal(k.t, (<-done).Error(), "no_answer", "the transfer")
			k.answers("r", 100)
			pass(29 * time.Second)
			testkit.Equal(k.t, k.stream.Takes(Message{Call: "CA2", Stream: "MZ2"}), false, "of another call")
			testkit.Equal(k.t, fmt.Sprint(k.stream.Takes(other), k.stream.Takes(Message{Call: "CA1", Stream: "MZ3"})), "true false", "another stream")
			conn := k.dial()
			pass(time.Minute)
			k.want("what the carrier got", func() any { return k.got }, "[100 mark]")
			k.want("gone", func() any { return k.gone }, "[]")
			k.put(conn, `{"event":"stop"}`)
			k.want("gone", func() any { return k.gone }, "[1m49s]")
		},
		"a transfer after which nothing comes back": func(k *talk) {
			done := k.transfers(nil)
			must(k.t, k.first.CloseNow())
			k.stream.Moved("busy")
			<-done
			pass(31 * time.Second)
			k.want("gone", func() any { return k.gone }, "[30s]")
		},
		"a transfer that the carrier refuses, and has made": func(k *talk) {
			testkit.Equal(k.t, (<-k.transfers(errRefused)).Error(), "failed", "the transfer")
			testkit.Equal(k.t, k.stream.Over(), false, "over")
			k.stream.Moved("")
			k.want("gone", func() any { return k.gone }, "[0s]")
			testkit.Equal(k.t, k.stream.Over(), true, "over")
		},
		"a transfer of which nothing is told": func(k *talk) {
			testkit.Equal(k.t, <-k.transfers(nil), nil, "the transfer")
			testkit.Equal(k.t, k.stream.Over(), true, "over")
		},
		"a transfer of a call that ends": func(k *talk) {
			ctx, cancel := context.WithCancel(k.t.Context())
			cancel()
			if err := k.stream.Transfer(ctx, "+4930", func() error { return nil }); !errors.Is(err, context.Canceled) {
				k.t.Errorf("the transfer: %v", err)
			}
			testkit.Equal(k.t, k.stream.Over(), false, "over")
		},
		"no sound": func(k *talk) {
			pass(400 * time.Millisecond)
			k.want("at first", func() any { return k.events }, "[]")
			pass(9600 * time.Millisecond)
			k.want("events", func() any { return k.events }, "[10000]")
		},
		"an interruption": func(k *talk) {
			k.answers("r", 5000)
			pass(2 * time.Second)
			k.put(k.first, `{"event":"media","media":{"payload":"`+base64.StdEncoding.EncodeToString(sound(20))+`"}}`)
			synctest.Wait()
			k.says(`{"type":"input_audio_buffer.speech_started"}`)
			k.want("the last that the carrier got", func() any { return k.got[len(k.got)-1] }, "clear")
			k.want("the last event", func() any { return k.events[len(k.events)-1] }, "conversation.item.truncate of-r 2000")
			n := len(k.got)
			k.answers("r", 1000)
			pass(time.Second)
			k.want("more of it", func() any { return k.got[n:] }, "[]")
			k.says(`{"type":"input_audio_buffer.speech_started"}`)
			k.want("what nobody hears is not stopped", func() any { return k.got[n:] }, "[]")
		},
		"one that does not interrupt": func(k *talk) {
			k.says(`{"type":"session.updated","session":{"audio":{"input":{"turn_detection":{"type":"server_vad","interrupt_response":false}}}}}`)
			k.answers("r", 300)
			k.says(`{"type":"input_audio_buffer.speech_started"}`)
			pass(time.Second)
			k.want("what the carrier got", func() any { return k.got }, "[100 100 100 mark]")
		},
		"an answer that is stopped": func(k *talk) {
			k.answers("r", 3000)
			pass(time.Second)
			k.stream.Stop("other")
			k.want("not the other", func() any { return k.got[len(k.got)-1] }, "100")
			k.stream.Stop("r")
			k.want("the last that the carrier got", func() any { return k.got[len(k.got)-1] }, "clear")
		},
		"the call's end": func(k *talk) {
			k.answers("r", 3000)
			pass(time.Second)
			go func() { _ = k.stream.Close() }()
			k.want("closed", func() any { return k.status }, "StatusNormalClosure")
			pass(time.Minute)
			k.want("gone", func() any { return k.gone }, "[]")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, test)
		})
	}
}
