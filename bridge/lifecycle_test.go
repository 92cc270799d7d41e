package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/bridge/internal/leg"
	"voicebridge/bridge/internal/session"
	"voicebridge/bridge/internal/task"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/persistence/spool"
	"voicebridge/persistence/spool/spooltest"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/toolkit/charts"
	"voicebridge/toolkit/clienttool"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// recorder records what a call does to its legs and its thread, in order.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// fakeLeg is a leg without a network.
type fakeLeg struct {
	name     string
	recorder *recorder
	stalled  chan struct{} // if not nil, Send waits for it
	talks    bool          // a packet comes every 20 ms
	received atomic.Int64  // packets
	closed   chan struct{}
	once     sync.Once

	mu   sync.Mutex
	sent []string
}

func newFakeLeg(name string, r *recorder) *fakeLeg {
	return &fakeLeg{name: name, recorder: r, closed: make(chan struct{})}
}

func (l *fakeLeg) ID() string                       { return "rtc_1" }
func (l *fakeLeg) Opening() [][]byte                { return nil }
func (l *fakeLeg) Append([]thread.Message) [][]byte { return nil }
func (l *fakeLeg) WriteAudio(*media.Packet) error   { l.received.Add(1); return nil }
func (l *fakeLeg) Can() Capabilities                { return (*realtimeLeg)(nil).Can() }
func (l *fakeLeg) MaxMessageSize() int              { return 64 << 10 }

func (l *fakeLeg) TrySend([]byte) bool { return false }

func (l *fakeLeg) Send(ctx context.Context, data []byte) error {
	select {
	case <-l.stalled:
	default:
		if l.stalled != nil {
			select {
			case <-l.stalled:
			case <-l.closed:
				return media.ErrClosed
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, string(data))
	return nil
}

func (l *fakeLeg) Forward(ctx context.Context, dst media.Sink, flow *media.Flow) error {
	every := time.Hour
	if l.talks {
		every = 20 * time.Millisecond
	}
	packets := time.Tick(every)
	for {
		select {
		case <-packets:
			if flow.IsOpen() {
				_ = dst.WriteAudio(&media.Packet{}) // it never fails
			}
		case <-l.closed:
			return media.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *fakeLeg) Close() error {
	l.once.Do(func() {
		l.recorder.add("close %s", l.name)
		close(l.closed)
	})
	return nil
}

func (l *fakeLeg) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.sent, func(s string) bool { return strings.Contains(s, part) })
}

// fakeUpstream has one leg, and can hang up.
type fakeUpstream struct {
	recorder *recorder
	leg      *fakeLeg      // returned by every dial
	slow     time.Duration // to answer a hang-up
	mu       sync.Mutex
	err      error
}

func (u *fakeUpstream) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.err = err
}

func (u *fakeUpstream) Name() string                                    { return "fake" }
func (u *fakeUpstream) Dial(context.Context, Dial) (UpstreamLeg, error) { return u.leg, nil }
func (u *fakeUpstream) HangUp(ctx context.Context, _ string) error {
	u.recorder.add("hang up")
	select {
	case <-time.After(u.slow):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

type fakeThread struct{}

func (fakeThread) Publish(context.Context, thread.Key, persistence.Event) {}
func (fakeThread) Watched(thread.Key) bool                                { return true }

// recordingStore is a database that records the call's end.
type recordingStore struct {
	spooltest.Store
	recorder *recorder
}

func (l *recordingStore) ApplyAll(ctx context.Context, groups []persistence.ThreadChanges) ([]persistence.Applied, error) {
	applied, err := l.Store.ApplyAll(ctx, groups)
	for _, o := range groups[0].Changes {
		if c, ok := o.(persistence.PutCall); ok && c.Call.EndedAt != nil && err == nil {
			l.recorder.add("saved end %s", c.Call.EndReason)
		}
	}
	return applied, err
}

// bubble is a call in a synctest bubble.
type bubble struct {
	t        *testing.T
	call     *call
	state    *session.State
	cfg      session.Config
	registry *toolkit.Registry
	client   *clienttool.Toolkit
	dialer   leg.Dialer
	browser  *fakeLeg
	up       *fakeLeg
	thread   *recordingStore
	database interface { // thread, unless a test has another one
		ApplyAll(ctx context.Context, groups []persistence.ThreadChanges) ([]persistence.Applied, error)
	}
	recorder *recorder
	reason   EndReason
	run      func()
	done     <-chan struct{}
}

func (b *bubble) Instance() string { return "test" }

func (b *bubble) ApplyAll(ctx context.Context, groups []persistence.ThreadChanges) ([]persistence.Applied, error) {
	return b.database.ApplyAll(ctx, groups)
}

func newBubble(t *testing.T, change func(*bubble)) *bubble {
	t.Helper()
	r := &recorder{}
	b := &bubble{t: t, recorder: r, browser: newFakeLeg("browser", r), up: newFakeLeg("upstream", r), thread: &recordingStore{recorder: r}}
	b.database = b.thread
	b.registry = toolkit.NewRegistry()
	for _, tool := range []toolkit.Tool{charts.Tools()[0], charts.Tools()[1], cancelTool()[0].Tool} {
		testkit.Must(t, b.registry.Add(toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp}))
	}
	b.client = clienttool.New(b.registry, clienttool.Config{})
	c := newCall("call-1", thread.Key{Owner: "ada", Thread: "thread-1"}, quiet())
	b.call = c
	b.cfg = session.Config{
		CallID: c.id, Key: c.key, UpstreamLimit: 256 << 10, UpstreamCan: (*realtimeLeg)(nil).Can(), BrowserLimit: 64 << 10, ItemPrefix: "vb",
		Settings: session.Settings{
			Session:        session.Defaults{Model: "model-1", Voice: "marin", TranscriptionModel: "words-1", Instructions: "SECRET"},
			ReplayMessages: 20, Approve: toolkit.MustNames("create_line_chart"),
		},
		Cost:  func(string, string, realtime.Usage) *float64 { return nil },
		NewID: func(_ time.Time, n int) string { return fmt.Sprintf("id-%d", n) },
	}
	c.thread = fakeThread{}
	c.newest = leg.NewBrowser(1, b.browser, c.log, func(int) {})
	b.dialer = leg.Dialer{Upstream: &fakeUpstream{recorder: r, leg: b.up}, CallID: c.id, ItemPrefix: "vb", Post: c.post, Log: c.log}
	var err error
	if c.writer, err = spool.New(spool.Config{Store: b, Saved: func(_ thread.Key, messages []thread.Message) {
		for _, m := range messages {
			c.saved(m)
		}
	}}); err != nil {
		t.Fatal(err)
	}
	c.tools.registry = b.registry
	c.tools.router, c.tools.client = toolkit.NewRouter(b.registry, toolkit.RouterConfig{}), b.client
	b.run = func() {
		b.reason, _ = c.run(b.state)
		c.acks.close()
	}
	if change != nil {
		change(b)
	}
	first, err := b.dialer.Dial(t.Context(), 1, nil, func(context.Context) ([]thread.Message, error) { return nil, nil }, "", func(records.Leg) error { return nil })
	testkit.Must(t, err)
	c.dialer, c.first = &b.dialer, first
	b.state = session.New(b.cfg, records.Call{ID: c.id, ThreadID: "thread-1"}, b.registry, time.Now())
	ctx, stop := context.WithCancel(context.Background())
	written := task.Go(func() { _ = c.writer.Run(ctx) }) // in some tests it loses something
	b.done = task.Go(func() {
		b.run()
		stop()
		<-written
	})
	return b
}

func (b *bubble) upEvent(text string) { b.call.post(session.UpstreamEvent{Gen: 1, Data: []byte(text)}) }

// ready brings the session up.
func (b *bubble) ready() {
	b.upEvent(`{"type":"session.created","session":{"type":"realtime"}}`)
	b.upEvent(`{"type":"session.updated","session":{"type":"realtime"}}`)
	synctest.Wait()
	if !b.call.fromUser.IsOpen() || !b.browser.has("bridge.ready") {
		b.t.Fatal("the call is not ready")
	}
}

// end waits for the end of the call.
func (b *bubble) end(want EndReason) {
	b.t.Helper()
	<-b.done
	testkit.Equal(b.t, b.reason, want, "ended because")
	if b.call.fromUser.IsOpen() {
		b.t.Error("the caller is still heard")
	}
}

func TestHangUpOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, nil)
		b.ready()
		b.call.stop(EndHangup)
		b.end(EndHangup)
		want := []string{"hang up", "close upstream", "close browser"}
		got := slices.DeleteFunc(slices.Clone(b.recorder.lines), func(s string) bool { return s == "saved end hangup" })
		testkit.Equal(t, got, want, "got")
		// The end is saved as soon as it is known, before the browser's leg is closed.
		if i := slices.Index(b.recorder.lines, "saved end hangup"); i < 0 || i > slices.Index(b.recorder.lines, "close browser") {
			t.Errorf("order of the end: %q", b.recorder.lines)
		}
		if !b.browser.has(`"reason":"hangup"`) {
			t.Error("the browser did not get bridge.ended")
		}
	})
}

// TestSlowHangUp ends a call whose upstream answers the hang-up late, or never: whoever takes the thread over does not
// wait for that, but the process does.
func TestSlowHangUp(t *testing.T) {
	t.Parallel()
	for slow, want := range map[time.Duration]string{leg.HangUpTimeout * 3 / 4: "hung up call-1 1", time.Hour: ""} {
		synctest.Test(t, func(t *testing.T) {
			later := make(chan func(<-chan struct{}), 1)
			recorded := ""
			b := newBubble(t, func(b *bubble) {
				b.dialer.Upstream.(*fakeUpstream).slow = slow
				b.dialer.Later = func(work func(<-chan struct{})) { later <- work }
				b.dialer.HungUp = func(callID string, generation int64) { recorded = fmt.Sprintf("hung up %s %d", callID, generation) }
			})
			b.ready()
			asked := time.Now()
			b.call.stop(EndTakenOver)
			b.end(EndTakenOver)
			if took := time.Since(asked); took > leg.HangUpTimeout/2 {
				t.Errorf("the call ended after %s", took) // virtual
			}
			(<-later)(nil)
			if took := time.Since(asked); recorded != want || took < min(slow, leg.HangUpTimeout) {
				t.Errorf("after %s, recorded %q, want %q", took, recorded, want)
			}
		})
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*bubble)
		act    func(*bubble)
		want   EndReason
	}{
		{"a browser that never comes", nil, func(b *bubble) { b.call.post(session.BrowserState{Gen: 1, State: session.Failed}) }, EndNeverConnected},
		{"a tab that is closed", nil, func(b *bubble) {
			b.ready()
			b.call.post(session.BrowserState{Gen: 1, State: session.Connected})
			b.call.post(session.BrowserState{Gen: 1, State: session.Closed})
		}, EndBrowserClosed},
		{"a browser that vanishes", nil, func(b *bubble) {
			b.call.post(session.BrowserState{Gen: 1, State: session.Connected})
			b.call.post(session.BrowserState{Gen: 1, State: session.Disconnected})
			b.call.post(session.BrowserState{Gen: 1, State: session.Failed})
		}, EndBrowserLost},
		{"a browser that comes back", nil, func(b *bubble) {
			b.call.post(session.BrowserState{Gen: 1, State: session.Connected})
			b.call.post(session.BrowserState{Gen: 1, State: session.Disconnected})
			b.call.post(session.BrowserState{Gen: 1, State: session.Connected})
			b.call.stop(EndHangup)
		}, EndHangup},
		{"an upstream that never gets ready", nil, func(*bubble) {}, EndUpstreamSetup},
		{"an upstream that breaks", nil, func(b *bubble) { b.ready(); b.call.post(session.UpstreamState{Gen: 1, State: session.Failed}) }, EndUpstreamLost},
		{"the operator's limit", func(b *bubble) { b.cfg.MaxDuration = time.Hour }, func(b *bubble) { b.ready() }, EndMaxDuration},
		{"a browser that reads nothing", func(b *bubble) { b.browser.stalled = make(chan struct{}) }, func(b *bubble) {
			fact := `{"type":"rate_limits.updated","x":"` + strings.Repeat("y", 60<<10) + `"}`
			for range 200 {
				b.upEvent(fact)
			}
		}, EndBrowserStalled},
		{"a database that is gone for good", func(b *bubble) {
			b.thread.Errs = slices.Repeat([]error{errors.New("away")}, 10_000)
		}, func(b *bubble) {
			b.ready()
			for i := range 24 {
				b.upEvent(fmt.Sprintf(`{"type":"conversation.item.added","previous_item_id":null,"item":{"id":"i%d","type":"message","role":"user",`+
					`"content":[{"type":"input_text","text":%q}]}}`, i, strings.Repeat("z", 900<<10)))
			}
		}, EndStorageFailed},
		{"a defect", func(b *bubble) { b.cfg.NewID = func(time.Time, int) string { panic("no more ids") } }, func(b *bubble) {
			b.ready()
			b.upEvent(`{"type":"input_audio_buffer.committed","item_id":"i1","previous_item_id":null}`)
		}, EndInternal},
		{"an upstream that cannot be hung up", func(b *bubble) {
			b.dialer.Upstream.(*fakeUpstream).err = errors.New("500")
		}, func(b *bubble) { b.call.stop(EndShutdown) }, EndShutdown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, tt.change)
				tt.act(b)
				b.end(tt.want)
				if !slices.Contains(b.recorder.lines, "hang up") || !slices.Contains(b.recorder.lines, "close browser") {
					t.Errorf("left behind: %q", b.recorder.lines)
				}
				b.call.post(session.Tick{}) // inputs after the end are ignored
				if m, ok := <-b.call.acks.await("late"); ok {
					t.Errorf("a message after the end: %v", m)
				}
			})
		})
	}
}

// slowTool ends when the test lets it, and ignores everything else.
type slowTool struct{ release chan struct{} }

func (slowTool) Definition() toolkit.Definition {
	return toolkit.Definition{Name: "slow", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}
}

func (s slowTool) Call(ctx context.Context, _ toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		if !yield(toolkit.Chunk{Message: "half way", Percent: 50}, nil) {
			return
		}
		select {
		case <-s.release:
		case <-ctx.Done():
			yield(toolkit.Chunk{}, context.Cause(ctx))
			return
		}
		yield(toolkit.Chunk{Result: &toolkit.Result{Output: json.RawMessage(`{"ok":true}`)}}, nil)
	}
}

const slowCall = `{"type":"response.output_item.done","response_id":"r1","item":{"id":"i%[1]d","type":"function_call","status":"completed","call_id":"c%[1]d","name":"slow","arguments":"{}"}}`

func TestToolsRunBesideTheLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tool := slowTool{release: make(chan struct{})}
		b := newBubble(t, func(b *bubble) {
			testkit.Must(t, b.registry.Add(toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp}))
		})
		b.ready()
		for i := range 8 {
			b.upEvent(fmt.Sprintf(slowCall, i))
		}
		b.upEvent(`{"type":"response.done","response":{"id":"r1","status":"completed"}}`)
		synctest.Wait()
		if b.up.has("function_call_output") || !b.browser.has(`"percent":50`) {
			t.Fatal("the tools do not run")
		}
		close(tool.release)
		synctest.Wait()
		outputs, creates := 0, 0
		for i, sent := range b.up.sent {
			outputs += strings.Count(sent, `"function_call_output"`)
			if strings.Contains(sent, "response.create") {
				creates++
				if i != len(b.up.sent)-1 {
					t.Error("response.create was sent before all outputs")
				}
			}
		}
		if outputs != 8 || creates != 1 {
			t.Errorf("%d outputs, %d response.create", outputs, creates)
		}
		b.call.stop(EndHangup)
		b.end(EndHangup)
	})
}

func TestToolsEndWithTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tool := slowTool{release: make(chan struct{})}
		b := newBubble(t, func(b *bubble) {
			testkit.Must(t, b.registry.Add(toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp}))
		})
		b.ready()
		b.upEvent(fmt.Sprintf(slowCall, 1))
		synctest.Wait()
		b.call.stop(EndHangup)
		b.end(EndHangup)
		if !slices.ContainsFunc(b.thread.Saved, func(s string) bool { return strings.HasPrefix(s, "tool c1 slow app cancelled") }) {
			t.Errorf("the tool call is not closed: %q", b.thread.Saved)
		}
	})
}

// TestLossGrace loses the browser twice while its packets still arrive: it comes back in
// time, and it does not. Nothing of it is heard while the call waits.
func TestLossGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const grace = 30 * time.Second
		b := newBubble(t, func(b *bubble) {
			b.cfg.LossGrace, b.cfg.CloseGrace = grace, time.Second
			b.browser.talks = true
		})
		state := func(s session.Connection) { b.call.post(session.BrowserState{Gen: 1, State: s}) }
		packets := func(d time.Duration) int64 {
			synctest.Wait()
			before := b.up.received.Load()
			time.Sleep(d) // virtual
			return b.up.received.Load() - before
		}
		testkit.Equal(t, packets(time.Second), 0, "packets before the call is ready")
		b.ready()
		state(session.Connected)
		if n := packets(time.Second); n < 49 || n > 51 {
			t.Errorf("%d packets in a second of the call", n)
		}
		state(session.Disconnected)
		if n := packets(time.Second); n < 49 || n > 51 {
			t.Errorf("%d packets while the connection may come back by itself", n)
		}
		state(session.Failed)
		if n := packets(grace - time.Second); n != 0 || !b.call.waiting.Load() || b.call.ends.Load() {
			t.Errorf("%d packets while the call waits, waiting %t, ends %t", n, b.call.waiting.Load(), b.call.ends.Load())
		}
		state(session.Connected)
		if n := packets(time.Second); n < 49 || n > 51 || b.call.waiting.Load() {
			t.Errorf("%d packets of the browser that is back, waiting %t", n, b.call.waiting.Load())
		}
		state(session.Failed)
		lost := time.Now()
		testkit.Equal(t, packets(grace-time.Second), 0, "packets while the call waits again")
		b.end(EndBrowserLost)
		if took := time.Since(lost); took < grace || took > grace+5*time.Second {
			t.Errorf("the call waited %v", took)
		}
	})
}
