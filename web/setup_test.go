package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"voicebridge/bridge"
	"voicebridge/chat"
	"voicebridge/chat/chattest"
	"voicebridge/chat/queue"
	"voicebridge/hooks"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/simulator"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/privacy"
	"voicebridge/persistence/records"
	"voicebridge/realtime"
	"voicebridge/realtime/wsserver"
	"voicebridge/thread"
	"voicebridge/web/access"
)

var must = testkit.Must

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeCalls stands in for the bridge: it makes threads in the real store and records the
// requests.
type fakeCalls struct {
	store *persistence.Store

	mu      sync.Mutex
	starts  []bridge.Start
	hungUp  []string
	forgot  []string
	live    map[string]string // owner/thread → call
	fail    error
	entered chan struct{} // if not nil, gets a value when Start begins
	hold    chan struct{} // if not nil, Start waits for it
	next    int
}

func (f *fakeCalls) Start(ctx context.Context, s bridge.Start) (bridge.Started, error) {
	f.mu.Lock()
	f.starts = append(f.starts, s)
	fail, entered, hold := f.fail, f.entered, f.hold
	f.next++
	id := fmt.Sprintf("call-%d", f.next)
	f.mu.Unlock()
	if entered != nil {
		entered <- struct{}{}
	}
	if hold != nil {
		<-hold
	}
	if fail != nil {
		return bridge.Started{}, fail
	}
	if s.ThreadID == "" {
		t, err := f.store.CreateThread(ctx, s.Owner, "")
		if err != nil {
			return bridge.Started{}, err
		}
		s.ThreadID = t.ID
	} else if _, err := f.store.Thread(ctx, thread.Key{Owner: s.Owner, Thread: s.ThreadID}); err != nil {
		return bridge.Started{}, fmt.Errorf("start call: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, busy := f.live[s.Owner+"/"+s.ThreadID]; busy && !s.Takeover {
		return bridge.Started{}, &bridge.Error{Code: bridge.CodeCallActive, Message: "The thread has a live call."}
	}
	f.live[s.Owner+"/"+s.ThreadID] = id
	return bridge.Started{CallID: id, ThreadID: s.ThreadID, Answer: "v=0\r\nanswer"}, nil
}

func (f *fakeCalls) ReadSession(object json.RawMessage, fixed bool) (realtime.Settings, error) {
	patch, refused := new(bridge.SessionConfig).Read(object, fixed)
	if refused != nil {
		return nil, &bridge.Error{Code: bridge.CodeBadSession, Message: refused.Message, Param: refused.Param}
	}
	return patch.Settings(), nil
}

func (f *fakeCalls) Hangup(_ context.Context, owner, callID string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, id := range f.live {
		if id == callID && strings.HasPrefix(key, owner+"/") {
			delete(f.live, key)
			f.hungUp = append(f.hungUp, callID)
			return nil
		}
	}
	return fmt.Errorf("hang up: %w", persistence.ErrNotFound)
}

// End ends a call by telephone, with its connection.
func (f *fakeCalls) End(_ context.Context, owner, callID string, reason bridge.EndReason) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, id := range f.live {
		if id == callID && strings.HasPrefix(key, owner+"/") {
			delete(f.live, key)
			f.hungUp = append(f.hungUp, callID+" "+string(reason))
			var n int
			_, _ = fmt.Sscanf(callID, "call-%d", &n)
			return f.starts[n-1].Socket.Close()
		}
	}
	return fmt.Errorf("end call: %w", persistence.ErrNotFound)
}

// ended returns the calls that were ended.
func (f *fakeCalls) ended() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.hungUp...)
}

// save saves the latest call, as one of a caller that has ended.
func (f *fakeCalls) save(t *testing.T, owner, line, caller string) {
	t.Helper()
	threads, _, err := f.store.Threads(t.Context(), owner, persistence.ThreadFilter{Limit: 10})
	must(t, err)
	must(t, f.store.Records.SaveCall(t.Context(), thread.Key{Owner: owner, Thread: threads[0].ID}, records.Call{
		ID: "saved", Upstream: "u", StartedAt: time.Now(), EndedAt: new(time.Now()), EndReason: "hangup",
		Client: records.ClientPhone, Line: line, Caller: caller, Direction: records.Inbound,
	}))
}

func (f *fakeCalls) GiveUp(ctx context.Context, key thread.Key, callID string, takeover bool) error {
	if !takeover {
		return nil
	}
	return f.Hangup(ctx, key.Owner, callID)
}

func (f *fakeCalls) JoinSideband(_ context.Context, owner, callID string, _ *wsserver.Conn, _ bool) (string, error) {
	return f.threadOf(owner, callID)
}

// threadOf returns the thread of an owner's live call.
func (f *fakeCalls) threadOf(owner, callID string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, id := range f.live {
		if threadID, ok := strings.CutPrefix(key, owner+"/"); ok && id == callID {
			return threadID, nil
		}
	}
	return "", persistence.ErrNotFound
}

func (f *fakeCalls) Has(owner, callID string) bool {
	_, err := f.threadOf(owner, callID)
	return err == nil
}

func (f *fakeCalls) ReconnectSocket(_ context.Context, owner, callID string, _ *wsserver.Conn, _ bool) error {
	_, err := f.threadOf(owner, callID)
	return err
}

func (f *fakeCalls) Reconnect(_ context.Context, owner, callID, _ string) (string, error) {
	if _, err := f.threadOf(owner, callID); err != nil {
		return "", fmt.Errorf("reconnect: %w", err)
	}
	return "v=0\r\nanother answer", nil
}

func (f *fakeCalls) Free(context.Context, thread.Key) error { return nil }

func (f *fakeCalls) Live(owner, threadID string) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, ok := f.live[owner+"/"+threadID]
	return id, ok
}

// SetRecording knows the call "recorded" of alice.
func (*fakeCalls) SetRecording(_ context.Context, owner, callID string, _ bridge.RecordingState) error {
	switch {
	case owner+callID == "alicerecorded":
		return nil
	case callID == "recorded":
		return persistence.ErrNotFound
	default:
		return &bridge.Error{Code: bridge.CodeNotRecorded, Message: "not recorded"}
	}
}

// Interrupt stops a turn of every live call.
func (f *fakeCalls) Interrupt(_ context.Context, key thread.Key) (bool, error) {
	_, live := f.Live(key.Owner, key.Thread)
	return live, nil
}

func (f *fakeCalls) Forget(key thread.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgot = append(f.forgot, key.Owner+"/"+key.Thread)
}

// Say saves the text, as the bridge does for a live call.
func (f *fakeCalls) Say(ctx context.Context, key thread.Key, m thread.Message, _ string) (thread.Message, error) {
	callID, ok := f.Live(key.Owner, key.Thread)
	if !ok {
		return thread.Message{}, &bridge.Error{Code: bridge.CodeNoCall, Message: "There is no live call on this thread."}
	}
	if known, err := f.store.Message(ctx, key, m.ID); err == nil {
		return known, nil // a call says it once
	}
	m.Role, m.Metadata.CallID = thread.RoleUser, callID
	return persistencetest.AppendMessage(ctx, f.store, key, m)
}

func (f *fakeCalls) Count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.live)
}

func (f *fakeCalls) started() []bridge.Start {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]bridge.Start(nil), f.starts...)
}

func (f *fakeCalls) failWith(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

// clock is a clock that tests can move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// logBuffer keeps the log, so that tests can check what must not be in it.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type bundle struct {
	*Server
	calls *fakeCalls
	chat  *chat.Door
	queue *queue.Queue
	db    *persistence.Store
	url   string // of db
	clock *clock
	cfg   Config
	log   *logBuffer
}

var testPage = fstest.MapFS{
	"index.html":       {Data: []byte("<!doctype html><title>page</title>" + strings.Repeat(" ", 2000))},
	"assets/app.js":    {Data: []byte("export default 1")},
	"assets/app.js.br": {Data: []byte("1 in Brotli")},
	"favicon.svg":      {Data: []byte("<svg/>")},
}

// setup makes a server on loopback with one local user, a real SQLite store, fake calls
// and real text turns with the simulator; change, if not nil, modifies its configuration.
func setup(t *testing.T, change func(*Config)) *bundle {
	t.Helper()
	return setupChat(t, chat.Config{Providers: []llm.Provider{simulator.New(simulator.Config{})}}, change)
}

// setupChat is setup with the given configuration of text turns.
func setupChat(t *testing.T, texts chat.Config, change func(*Config)) *bundle {
	t.Helper()
	url := persistencetest.SQLiteURL(t)
	db := persistencetest.Open(t, url, persistence.Options{})
	b := &bundle{
		calls: &fakeCalls{store: db, live: map[string]string{}}, db: db, url: url, log: &logBuffer{},
		clock: &clock{t: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)},
	}
	texts.Store = db
	texts.Silence, texts.ClientTimeout = cmp.Or(texts.Silence, patience), cmp.Or(texts.ClientTimeout, patience)
	inbox := queue.New(queue.Config{Store: db, MaxSize: 10, Enabled: true})
	b.queue = inbox
	texts.Observers = append(texts.Observers, inbox)
	b.chat = startChat(t, texts, b.calls)
	persistencetest.Start(t, func(ctx context.Context) error { return inbox.Run(ctx, b.chat) })
	addresses, err := hooks.NewAddresses([]string{"internal.test"})
	must(t, err)
	cfg := Config{
		Calls: b.calls, Chat: b.chat, Queue: inbox, Store: db, Privacy: privacy.Parts(db), CheckHook: addresses.Check, Page: testPage, ToolServers: fakeServers{},
		Loopback: true, Version: "test", Models: func(context.Context) []Model { return nil },
		Upstream: Upstream{Name: "simulator", Note: "a simulator", Model: "model-1", Voice: "voice-1"},
		Auth:     access.Auth{Secret: access.NewSecret("a secret that only tests know")},
		Limits: access.Limits{
			MaxCalls: 200, MaxCallsPerOwner: 20, SetupsPerMinute: 60, SignInsPerMinute: 10, MaxSockets: 2000, SocketsPerOwner: 200, TextsPerMinute: 120,
			ThreadsPerOwner: 10_000, StoredBytesPerOwner: 4 << 30, ImageBytesPerOwner: 1 << 30,
		},
		Logger: slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&cfg)
	}
	b.cfg = cfg
	if b.Server, err = newServer(cfg, b.clock.now); err != nil {
		t.Fatal(err)
	}
	return b
}

// neighbour makes a second server on the same database, as on another machine.
func (b *bundle) neighbour(t *testing.T, change func(*Config)) *bundle {
	t.Helper()
	other, cfg := *b, b.cfg
	cfg.Metrics = nil
	if change != nil {
		change(&cfg)
	}
	var err error
	if other.Server, err = newServer(cfg, b.clock.now); err != nil {
		t.Fatal(err)
	}
	return &other
}

// startChat runs a coordinator until the test ends, and returns the door to it and the calls.
func startChat(t *testing.T, cfg chat.Config, calls chat.Calls) *chat.Door {
	t.Helper()
	cfg.Writer, _ = chattest.Writer(t, cfg.Store)
	c, err := chat.New(cfg)
	must(t, err)
	persistencetest.Start(t, c.Run)
	return chat.NewDoor(c, calls)
}

// Call keeps the queue out of these calls.
func (f *fakeCalls) Call(thread.Key) (string, bool) { return "", false }

// tokens configures two owners, alice and bob, whose tokens are alice-token-of-tests and
// bob-token-of-tests.
func tokens(c *Config) {
	c.Auth.Tokens = []access.StaticToken{{Owner: "alice", Token: access.NewSecret("alice-token-of-tests")}, {Owner: "bob", Token: access.NewSecret("bob-token-of-tests")}}
}

type option func(*http.Request)

func header(name, value string) option {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func as(token string) option { return header("Authorization", "Bearer "+token) }

func host(name string) option { return func(r *http.Request) { r.Host = name } }

func from(address string) option { return func(r *http.Request) { r.RemoteAddr = address } }

// do sends a request directly to the handler. A body that begins with { is sent as JSON.
func (b *bundle) do(t *testing.T, method, target, body string, options ...option) *answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	r.Host = "localhost:8080"
	r.RemoteAddr = "127.0.0.1:40000"
	if strings.HasPrefix(body, "{") {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, o := range options {
		o(r)
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	b.wantDescribed(t, r, w)
	return &answer{StatusCode: w.Code, Header: w.Header(), body: w.Body.String()}
}

// answer is the handler's response.
type answer struct {
	StatusCode int
	Header     http.Header
	body       string
}

func decode[T any](t *testing.T, r *answer) T {
	t.Helper()
	var out T
	if err := json.Unmarshal([]byte(r.body), &out); err != nil {
		t.Fatalf("decode %q: %v", r.body, err)
	}
	return out
}

func wantStatus(t *testing.T, r *answer, want int) {
	t.Helper()
	if r.StatusCode != want {
		t.Fatalf("status %d, want %d: %s", r.StatusCode, want, r.body)
	}
}

// wantError checks the status and the code of an error in the form that its route uses.
func wantError(t *testing.T, r *answer, status int, code string) {
	t.Helper()
	body := r.body
	var got struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("status %d with body %q is not an error", r.StatusCode, body)
	}
	var plain string
	var nested openAIError
	if json.Unmarshal(got.Error, &plain) != nil {
		if err := json.Unmarshal(got.Error, &nested); err != nil || nested.Type == "" || nested.Message == "" {
			t.Fatalf("body %q is not an error", body)
		}
		plain = nested.Code
	} else if got.Message == "" {
		t.Fatalf("body %q has no message", body)
	}
	if r.StatusCode != status || plain != code {
		t.Fatalf("status %d code %q, want %d %q: %s", r.StatusCode, plain, status, code, body)
	}
}

func (b *bundle) thread(t *testing.T, owner string) thread.Key {
	t.Helper()
	return persistencetest.NewThread(t, b.db, owner, "")
}

func (b *bundle) say(t *testing.T, key thread.Key, words string) thread.Message {
	t.Helper()
	m, err := persistencetest.AppendMessage(t.Context(), b.db, key, thread.Message{
		Role: thread.RoleUser, Parts: []thread.Part{{Type: "text", Text: words}},
		Metadata: thread.Metadata{Source: thread.SourceText, Status: thread.StatusCompleted},
	})
	must(t, err)
	return m
}
