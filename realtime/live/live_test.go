package live

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/tools/txtar"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write what transcripts give")

// fakePeer carries a session that a test plays.
type fakePeer struct {
	h        media.Handlers
	mu       sync.Mutex
	commands []string
	packets  []sentPacket
	closed   chan struct{}
	refuses  error // of Accept
	silent   bool  // it never starts
	first    string
	deaf     bool // it answers no session.close
}

type sentPacket struct {
	media.Packet
	at time.Time
}

func (p *fakePeer) Accept(context.Context, string) error {
	if p.refuses != nil {
		return p.refuses
	}
	p.h.State(media.StateConnected)
	if !p.silent {
		p.says(cmp.Or(p.first, `{"type":"session.started","event_id":"s","session":{"id":"live_1","expires_at":4102444800}}`))
	}
	return nil
}

func (p *fakePeer) says(event string) { p.h.Message([]byte(event)) }

func (p *fakePeer) WriteAudio(packet *media.Packet) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.packets = append(p.packets, sentPacket{packet.Clone(), time.Now()})
	return nil
}

func (p *fakePeer) Send(_ context.Context, data []byte) error {
	p.mu.Lock()
	p.commands = append(p.commands, string(data))
	deaf := p.deaf
	p.mu.Unlock()
	if bytes.Contains(data, []byte(`"session.close"`)) && !deaf {
		p.says(`{"type":"session.closed","event_id":"x","reason":"close_requested","usage":{"seconds":61.5}}`)
	}
	return nil
}

func (p *fakePeer) Forward(ctx context.Context, _ media.Sink, _ *media.Flow) error {
	select {
	case <-ctx.Done():
	case <-p.closed:
	}
	return media.ErrClosed
}

func (p *fakePeer) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *fakePeer) sent() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.commands...)
}

// roundTrip answers requests.
type roundTrip func(*http.Request) (int, string)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := f(r)
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// bench is a client with one session.
type bench struct {
	t       *testing.T
	client  *Client
	peer    *fakePeer
	conn    *Conn
	posted  []string
	created []string
	dropped []*Conn

	mu     sync.Mutex
	events []string
	states []media.State
}

const created = `{"session":{"id":"live_1"},"transport":{"type":"webrtc","sdp":"v=0\r\nm=audio"}}`

func newBench(t *testing.T) *bench {
	b := &bench{t: t, peer: &fakePeer{closed: make(chan struct{})}}
	b.client = &Client{
		URL: "https://api.example/v1/live/sessions", APIKey: "sk-test", Rounds: 3,
		Offer: func(_ context.Context, h media.Handlers) (Peer, string, error) {
			b.peer.h = h
			return b.peer, "v=0 offer", nil
		},
		HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (int, string) {
			body, _ := io.ReadAll(r.Body)
			b.posted = append(b.posted, string(body))
			return http.StatusCreated, created
		})},
	}
	return b
}

func (b *bench) session(history ...Message) Session {
	return Session{
		Config:  json.RawMessage(`{"type":"realtime","instructions":"Be kind.","audio":{"output":{"voice":"marin"}},"tools":[{"type":"function","name":"look","description":"Looks.","parameters":{"type":"object"}}]}`),
		History: history,
		Handlers: media.Handlers{
			Message: func(data []byte) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.events = append(b.events, string(data))
			},
			State: func(s media.State) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.states = append(b.states, s)
			},
		},
		Created: func(id string) error { b.created = append(b.created, id); return nil },
		Dropped: func(c *Conn) { b.dropped = append(b.dropped, c) },
	}
}

func (b *bench) dial(history ...Message) {
	b.t.Helper()
	conn, err := b.client.Dial(b.t.Context(), b.session(history...))
	testkit.Must(b.t, err)
	b.conn = conn
}

func (b *bench) finish() Usage { return b.client.Finish(b.conn, nil) }

// TestTranscripts plays sessions, and compares what the client and the model are told with what is written beside.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no transcripts")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			testkit.Must(t, err)
			parts := map[string]string{}
			for _, f := range archive.Files {
				parts[f.Name] = string(f.Data)
			}
			var client, model string
			synctest.Test(t, func(t *testing.T) {
				client, model = play(t, parts["script"])
			})
			if *update {
				archive.Files = []txtar.File{{Name: "script", Data: []byte(parts["script"])}, {Name: "client", Data: []byte(client)}, {Name: "model", Data: []byte(model)}}
				testkit.Must(t, os.WriteFile(file, txtar.Format(archive), 0o600))
				return
			}
			testkit.Equal(t, gocmp.Diff(parts["client"], client)+gocmp.Diff(parts["model"], model), "", "gocmp.Diff")
		})
	}
}

// play plays a script: each line is an event of the session (live), of the client (client), a fragment of what a side
// says (user, voice), or time that passes (wait).
func play(t *testing.T, script string) (client, model string) {
	t.Helper()
	b := newBench(t)
	b.dial()
	n := 0
	for line := range strings.Lines(script) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch verb {
		case "", "#":
		case "wait":
			d, err := time.ParseDuration(rest)
			testkit.Must(t, err)
			time.Sleep(d)
		case "user", "voice":
			var start, end int
			var text string
			if _, err := fmt.Sscanf(rest, "%d %d %q", &start, &end, &text); err != nil {
				t.Fatal(line, err)
			}
			n++
			kind := map[string]string{"user": typeUserDelta, "voice": typeVoiceDelta}[verb]
			b.peer.says(string(realtime.Encode(tree{"type": kind, "event_id": fmt.Sprint("t", n), "delta": text, "start_ms": start, "end_ms": end})))
		case "live":
			b.peer.says(rest)
		case "client":
			b.conn.TrySend([]byte(rest))
		default:
			t.Fatal("unknown verb", line)
		}
		synctest.Wait()
	}
	time.Sleep(time.Second)
	b.mu.Lock()
	events := append([]string(nil), b.events...)
	b.mu.Unlock()
	commands := b.peer.sent()
	b.finish()
	names := namer{}
	for _, e := range events {
		client += names.summary(e)
	}
	for _, e := range commands {
		model += names.rename(regexp.MustCompile(`"event_id":"vb_l\d+",?`).ReplaceAllString(e, "")) + "\n"
	}
	return client, model
}

// namer gives ids short names.
type namer map[string]string

var ids = regexp.MustCompile(`(item|resp|event)_[a-z0-9]{20}`)

func (n namer) rename(text string) string {
	return ids.ReplaceAllStringFunc(text, func(id string) string {
		kind, _, _ := strings.Cut(id, "_")
		if n[id] == "" {
			n[kind] += "x"
			n[id] = fmt.Sprint(kind, len(n[kind]))
		}
		return n[id]
	})
}

// summary writes what matters of an event in a line.
func (n namer) summary(event string) string {
	ev, err := realtime.Decode([]byte(event))
	if err != nil {
		return err.Error() + "\n"
	}
	var more []string
	add := func(name, value string) {
		if value != "" {
			more = append(more, name+"="+n.rename(value))
		}
	}
	switch ev.Type {
	case realtime.TypeContentPartAdded, realtime.TypeContentPartDone, realtime.TypeAudioTranscriptDone, realtime.TypeItemDone, realtime.TypeFunctionArgumentsDone:
		return "" // with others that say the same
	}
	add("item", ev.ItemID)
	add("response", ev.ResponseID)
	if ev.HasPrevious && ev.Type == realtime.TypeItemAdded {
		add("after", cmp.Or(ev.PreviousItemID, "-"))
	}
	if ev.Delta != "" {
		add("delta", fmt.Sprintf("%q", ev.Delta))
	}
	if ev.Transcript != "" {
		add("transcript", fmt.Sprintf("%q", ev.Transcript))
	}
	if ev.Type == realtime.TypeItemTruncated {
		add("heard", fmt.Sprint(ev.AudioEndMS))
	}
	if item, err := realtime.DecodeItem(ev.Item); ev.Item != nil && err == nil {
		add("it", strings.TrimSpace(strings.Join([]string{item.ID, item.Type, item.Role, item.Status, item.CallID, item.Name, item.Arguments, item.Output}, " ")))
		add("text", item.Text())
	}
	if r, err := realtime.DecodeResponse(ev.Response); ev.Response != nil && err == nil {
		add("of", strings.TrimSpace(strings.Join([]string{r.ID, r.Status, r.StatusDetails.Reason, strings.Join(r.Modalities, "+")}, " ")))
	}
	add("usage", string(ev.Usage))
	if ev.Error != nil {
		add("error", ev.Error.Code+" "+ev.Error.EventID)
	}
	return strings.Join(append([]string{ev.Type}, more...), " ") + "\n"
}
