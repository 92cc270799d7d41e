package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/chat"
	"voicebridge/chat/chattest"
	"voicebridge/chat/queue"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/queued"
	"voicebridge/thread"
)

var must = testkit.Must

func TestMain(m *testing.M) { persistencetest.Main(m) }

// patience is how long a test waits for an event that must come.
const patience = 3 * time.Minute

// provider is a model that answers with the user's words, or as a test says.
type provider struct {
	// answer decides on a request by the user's last words; nil answers "ok".
	answer func(ctx context.Context, words string) error
	// title answers a request for a title; nil returns the words.
	title func(ctx context.Context, words string) (string, error)

	mu sync.Mutex
	// asked are the words of all requests for answers, in order.
	asked []string
	// running are the words that are currently being answered.
	running map[string]bool
	// most is the largest number of them at once on one thread, by the first word.
	most map[string]int
}

func (p *provider) Name() string { return "fake" }

func (p *provider) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		words := lastWords(req.Messages)
		if req.System == chat.ShortTitleInstructions {
			title, err := strings.TrimPrefix(words, "user: "), error(nil)
			if p.title != nil {
				title, err = p.title(ctx, title)
			}
			if err != nil {
				yield(llm.Delta{}, err)
				return
			}
			yield(llm.Delta{Text: title, Stop: llm.StopEnd}, nil)
			return
		}
		defer p.enter(words)()
		if p.answer != nil {
			if err := p.answer(ctx, words); err != nil {
				yield(llm.Delta{}, err)
				return
			}
		}
		yield(llm.Delta{Text: "ok", Stop: llm.StopEnd}, nil)
	}
}

// enter records a request, and how many there are on its thread.
func (p *provider) enter(words string) (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		p.running, p.most = map[string]bool{}, map[string]int{}
	}
	p.asked = append(p.asked, words)
	p.running[words] = true
	thread, _, _ := strings.Cut(words, " ")
	n := 0
	for other := range p.running {
		if name, _, _ := strings.Cut(other, " "); name == thread {
			n++
		}
	}
	p.most[thread] = max(p.most[thread], n)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.running, words)
	}
}

func (p *provider) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.asked...)
}

func (p *provider) crowd() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, most := range p.most {
		n = max(n, most)
	}
	return n
}

// lastWords returns the user's last words, without the context note.
func lastWords(messages []llm.Message) string {
	text := messages[len(messages)-1].Content
	if strings.HasPrefix(text, "[CONTEXT:") {
		_, text, _ = strings.Cut(text, "]\n\n")
	}
	return text
}

// noCalls are those of a server without any: the queue asks for no more.
type noCalls struct{ chat.Calls }

func (noCalls) Call(thread.Key) (string, bool) { return "", false }

func (noCalls) Say(context.Context, thread.Key, thread.Message, string) (thread.Message, error) {
	return thread.Message{}, persistence.ErrNotFound
}

// observers are told about turns before the queue, and after it.
type observers struct{ before, after []chat.TurnObserver }

// bench is one process: a store, text turns, queues.
type bench struct {
	t     *testing.T
	store *persistence.Store
	turns *chat.Coordinator
	q     *queue.Queue
	// door is where the queue sends to.
	door queue.Door
	key  thread.Key
	// cancel ends what run began, without waiting.
	cancel context.CancelFunc
}

// prepare makes a process that is not running yet.
func prepare(t *testing.T, store *persistence.Store, p *provider, cfg queue.Config, watching ...observers) *bench {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	cfg.Store, cfg.Logger = store, log
	q := queue.New(cfg)
	all := []chat.TurnObserver{q}
	for _, o := range watching {
		all = slices.Concat(o.before, all, o.after)
	}
	writer, _ := chattest.Writer(t, store)
	turns, err := chat.New(chat.Config{
		Store: store, Writer: writer, Providers: []llm.Provider{p}, NoTitles: true, Attempts: 1, Observers: all, Logger: log,
	})
	must(t, err)
	b := &bench{t: t, store: store, turns: turns, q: q, door: chat.NewDoor(turns, noCalls{})}
	b.key = b.thread()
	return b
}

// start is prepare and run.
func start(t *testing.T, store *persistence.Store, p *provider, cfg queue.Config) *bench {
	t.Helper()
	b := prepare(t, store, p, cfg)
	b.run()
	return b
}

// run runs the process until the test ends, or stop is called.
func (b *bench) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	var running sync.WaitGroup
	running.Go(func() {
		if err := b.turns.Run(ctx); err != nil {
			b.t.Errorf("Coordinator.Run() = %v", err)
		}
	})
	running.Go(func() {
		if err := b.q.Run(ctx, b.door); err != nil {
			b.t.Errorf("Queue.Run() = %v", err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	b.t.Cleanup(stop)
	return stop
}

func (b *bench) thread() thread.Key {
	b.t.Helper()
	return persistencetest.NewThread(b.t, b.store, "anna", "")
}

func (b *bench) within() context.Context { return persistencetest.Within(b.t) }

func (b *bench) add(text string) queued.Message {
	b.t.Helper()
	m, err := b.q.Add(b.t.Context(), b.key, queued.Message{Text: text})
	if err != nil {
		b.t.Fatalf("Add(%q) = %v", text, err)
	}
	return m
}

// list returns the waiting messages.
func (b *bench) list() ([]queued.Message, *queued.Pause) {
	b.t.Helper()
	list, pause, err := b.q.List(b.t.Context(), b.key)
	must(b.t, err)
	return list, pause
}

// wantPaused checks why the queue is paused and its only message was not sent.
func (b *bench) wantPaused(why string) {
	b.t.Helper()
	list, pause := b.list()
	if len(list) != 1 || list[0].Error != why || pause == nil || pause.Message != why {
		b.t.Errorf("List() = %+v, %+v, want %q", list, pause, why)
	}
}

// script writes the thread as text, one message per line.
func (b *bench) script(key thread.Key) string {
	b.t.Helper()
	all, err := b.store.Messages(b.t.Context(), key, 0, 1000)
	must(b.t, err)
	var s strings.Builder
	for _, m := range all {
		fmt.Fprintf(&s, "%s %s: %s\n", m.Role, m.Metadata.Status, m.Text())
	}
	return s.String()
}

// waitFor waits until the thread reads as given. A watch says when to look.
func (b *bench) waitFor(key thread.Key, want string) {
	b.t.Helper()
	ctx := b.within()
	for _, err := range b.store.Watch(key).Events(ctx, 0) {
		if err != nil {
			b.t.Fatalf("the thread is\n%s\nwant\n%s\n%v", b.script(key), want, err)
		}
		if b.script(key) == want {
			return
		}
	}
}

// watcher collects the events of a thread's queue.
type watcher struct {
	b      *bench
	events chan persistence.Event
}

// watch starts collecting: no later event is missed.
func (b *bench) watch(store *persistence.Store) *watcher {
	b.t.Helper()
	w := &watcher{b: b, events: make(chan persistence.Event, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	done, events := make(chan struct{}), store.Watch(b.key).Events(ctx, -1)
	go func() {
		defer close(done)
		for e, err := range events {
			if err != nil {
				return
			}
			if strings.HasPrefix(string(e.Type), "queue_") {
				w.events <- e
			}
		}
	}()
	b.t.Cleanup(func() { cancel(); <-done })
	return w
}

// summary is an event of the queue in one line.
func summary(e persistence.Event) string {
	var d struct {
		Length int    `json:"queue_length"`
		Action string `json:"action"`
		Title  string `json:"title"`
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal(e.Data, &d); err != nil {
		return err.Error()
	}
	switch e.Type {
	case "queue_updated":
		return fmt.Sprintf("%s %s %d", e.Type, d.Action, d.Length)
	case "queue_message_titled":
		return fmt.Sprintf("%s %s", e.Type, d.Title)
	case "queue_paused":
		return fmt.Sprintf("%s %s", e.Type, d.Reason)
	}
	return string(e.Type)
}

// until collects events up to one that reads like last, and returns them as lines.
func (w *watcher) until(last string) string {
	w.b.t.Helper()
	var lines []string
	for {
		select {
		case e := <-w.events:
			lines = append(lines, summary(e))
			if summary(e) == last {
				return strings.Join(lines, "\n")
			}
		case <-w.b.within().Done():
			w.b.t.Fatalf("%q did not come after\n%s", last, strings.Join(lines, "\n"))
		}
	}
}

func checkText(t *testing.T, what, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("%s is\n%s\nwant\n%s", what, got, want)
	}
}
