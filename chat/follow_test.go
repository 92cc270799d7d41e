package chat_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/cluster"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// pair is a process that runs turns, and another process on the same database.
type pair struct {
	*bench

	there *chat.Coordinator
}

// startPair opens two processes on one PostgreSQL.
func startPair(t *testing.T, cfg chat.Config) *pair {
	t.Helper()
	return startPairWith(t, persistencetest.PostgresURL(t), cfg, persistence.Options{})
}

// startPairWith is startPair with a database and options of the stores.
func startPairWith(t *testing.T, url string, cfg chat.Config, opts persistence.Options) *pair {
	t.Helper()
	open := func() *persistence.Store {
		s := persistencetest.Open(t, url, opts)
		must(t, s.Serve(t.Context()))
		return s
	}
	here, there := open(), open()
	b := start(t, here, cfg)
	cfg.Writer, _ = chattest.Writer(t, there)
	cfg.Store, cfg.Logger = there, slog.New(slog.NewTextHandler(t.Output(), nil))
	other, err := chat.New(cfg)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var handling sync.WaitGroup
	handling.Go(func() { _ = here.Cluster.HandleCommands(ctx, b.c.HandleCommand) })
	t.Cleanup(func() { stop(); handling.Wait() })
	return &pair{b, other}
}

// follower collects what the other process reports about the running turn.
func (p *pair) follower() func() string {
	p.t.Helper()
	f, err := p.there.Follow(p.within(), p.key)
	must(p.t, err)
	var events []chat.Event
	var failed error
	done := make(chan struct{})
	ctx := p.within()
	go func() {
		defer close(done)
		for e, err := range f.Events(ctx, 0) {
			if err != nil {
				failed = err
				return
			}
			events = append(events, e)
		}
	}()
	return func() string {
		p.t.Helper()
		<-done
		if failed != nil {
			p.t.Errorf("Events() = %v", failed)
		}
		for i, e := range events {
			if e.Index != i {
				p.t.Errorf("event %d has the number %d", i, e.Index)
			}
		}
		return course(events)
	}
}

// TestYieldElsewhere has a turn of another process give way when its reader is lost.
func TestYieldElsewhere(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	p := startPair(t, chat.Config{Providers: []llm.Provider{&fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, _ func(llm.Delta, error) bool) {
		close(begun)
		<-ctx.Done()
	}}}, NoTitles: true})
	turn := p.turn(chat.TurnRequest{Text: "Go"})
	<-begun
	p.there.Yield(p.within(), p.key)
	if turn.Ended() {
		t.Fatal("the turn ended, though nobody was to read it")
	}
	turn.Join()(true)
	p.there.Yield(p.within(), p.key)
	if r, err := turn.Wait(p.within()); err != nil || r.Finish != chat.FinishInterrupted {
		t.Errorf("Wait() = %+v, %v", r, err)
	}
}

// course returns the events of a turn, with the words of a block joined.
func course(events []chat.Event) string {
	var out strings.Builder
	var words string
	flush := func() {
		if words != "" {
			fmt.Fprintf(&out, "%q\n", words)
		}
		words = ""
	}
	for _, e := range events {
		if e.Type == chat.EventTextDelta || e.Type == chat.EventReasoningDelta {
			words += e.Delta
			continue
		}
		flush()
		fmt.Fprint(&out, e.Type, " ", e.TextID)
		if c := e.Call; c != nil {
			fmt.Fprintf(&out, " %s %s %v %s %s %q %s %v %q %s", c.ID, c.Name, c.Dynamic, c.Input, c.Output, c.Error, c.Nonce, c.Approved, c.Reason, c.Message)
		}
		if r := e.Result; r != nil {
			fmt.Fprintf(&out, " %s %s %q %s %s %v %q", r.TurnID, r.MessageID, r.Text, r.Status, r.Finish, r.Err, outline([]thread.Message{r.Message}))
		}
		out.WriteString("\n")
	}
	flush()
	return out.String()
}

// gate is where a provider waits for the test.
type gate struct{ reached, open chan struct{} }

func newGate() gate { return gate{make(chan struct{}), make(chan struct{})} }

func (g gate) pass(ctx context.Context) {
	close(g.reached)
	select {
	case <-g.open:
	case <-ctx.Done():
	}
}

// TestFollowInAnotherProcess follows turns from another process, from the beginning or the middle
// of the turn, and compares what it reports with what the turn's own process does.
func TestFollowInAnotherProcess(t *testing.T) {
	t.Parallel()
	lines := []string{"One.\n\n", "Two\n", "three.", "\n", "Four."}
	for name, c := range map[string]struct {
		before, after []llm.Delta // the first answer before and after the gate
		second        []llm.Delta
		fails         bool
		interrupted   bool
	}{
		"words":            {before: says(lines...)[:2], after: says(lines...)[2:]},
		"before any word":  {after: says(lines...)},
		"thoughts":         {before: []llm.Delta{{Reasoning: "Hm. "}}, after: append([]llm.Delta{{Reasoning: "Yes."}, {Text: "Well,"}, {Reasoning: "no"}}, says(" so.")...)},
		"tools":            {before: []llm.Delta{{Text: "I look.\n"}}, after: calls("a", "echo", `{"n":1}`, "b", "echo", `{"n":2}`), second: says("\nIt is", " 2.")},
		"a tool, no words": {after: calls("a", "echo", `{}`), second: says("Done.")},
		"an unknown tool":  {after: calls("a", "none", `{}`), second: says("Done.")},
		"a failure":        {before: []llm.Delta{{Text: "I "}}, fails: true},
		"a failure before": {fails: true},
		"an interruption":  {before: []llm.Delta{{Text: "I "}}, after: says("never say it"), interrupted: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate()
			provider := &fake{name: "fake", answer: func(ctx context.Context, n int, _ llm.Request, yield func(llm.Delta, error) bool) {
				if n > 0 {
					for _, d := range c.second {
						yield(d, nil)
					}
					return
				}
				for _, d := range c.before {
					yield(d, nil)
				}
				g.pass(ctx)
				for _, d := range c.after {
					if ctx.Err() != nil || !yield(d, nil) {
						return
					}
				}
				if c.fails {
					yield(llm.Delta{}, &llm.Error{Kind: llm.KindTooLong, Provider: "fake", Message: "It is too long."})
				}
			}}
			p := startPair(t, chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, echo), NoTitles: true, Attempts: 1})
			if _, err := p.there.Follow(t.Context(), p.key); !errors.Is(err, chat.ErrIdle) {
				t.Errorf("Follow() of nothing = %v", err)
			}
			turn := p.turn(chat.TurnRequest{Text: "Go"})
			early := p.follower()
			<-g.reached
			middle := p.follower()
			if c.interrupted {
				if err := p.there.Interrupt(t.Context(), p.key); err != nil {
					t.Errorf("Interrupt() = %v", err)
				}
				select {
				case <-turn.Done():
				default:
					t.Error("Interrupt() returned before the turn was saved")
				}
			}
			close(g.open)
			p.wait(turn)
			p.check(turn, early, middle)
			if _, err := p.there.Follow(t.Context(), p.key); !errors.Is(err, chat.ErrIdle) {
				t.Errorf("Follow() after the end = %v", err)
			}
		})
	}
}

// check compares what another process reports of a turn with what its own process reports.
func (p *pair) check(turn *chat.Turn, texts ...func() string) {
	p.t.Helper()
	want := ordered(course(p.bench.follow(turn, 0)))
	for _, got := range texts {
		checkText(p.t, "what another process tells", ordered(got()), want)
	}
}

// ordered drops events that only readers connected in time get, puts the results of
// parallel tools into one order, and removes the spaces that PostgreSQL puts into JSON.
func ordered(course string) string {
	var kept, outputs []string
	for line := range strings.Lines(strings.ReplaceAll(course, `": `, `":`)) {
		switch {
		case strings.HasPrefix(line, string(chat.EventToolProgress)):
		case strings.HasPrefix(line, string(chat.EventToolOutput)):
			outputs = append(outputs, line)
		default:
			kept = append(kept, slices.Sorted(slices.Values(outputs))...)
			kept, outputs = append(kept, line), nil
		}
	}
	return strings.Join(kept, "")
}

// TestFollowApproval has another process ask the user, take the answer and report the
// outcome.
func TestFollowApproval(t *testing.T) {
	t.Parallel()
	for name, approved := range map[string]bool{"yes": true, "no": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			risky, _ := counted("risky")
			p := startPair(t, asks(t, deltas(calls("a", "risky", `{"n":1}`), says("Done.")), risky))
			turn := p.turn(chat.TurnRequest{Text: "Go"})
			early := p.follower()
			q := p.question(turn)
			middle := p.follower()
			if err := p.there.Decide(t.Context(), p.key, chat.Decision{ToolCallID: "a", Nonce: q.Nonce, Approved: approved, By: "anna"}); err != nil {
				t.Errorf("Decide() = %v", err)
			}
			p.wait(turn)
			p.check(turn, early, middle)
		})
	}
}

// TestFollowProgress has another process report what a tool says while it runs, and words
// as they come, with and without notifications between the processes.
func TestFollowProgress(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(testing.TB) string{
		"notified":        persistencetest.PostgresURL,
		"behind a pooler": func(t testing.TB) string { return persistencetest.NewPooler(t).URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			followProgress(t, url(t))
		})
	}
}

func followProgress(t *testing.T, url string) {
	t.Helper()
	received := make(chan struct{})
	slow := tool{"slow", func(ctx context.Context, _ toolkit.Call, yield func(toolkit.Chunk, error) bool) {
		again := time.Tick(20 * time.Millisecond)
		for yield(toolkit.Chunk{Message: "half way", Percent: 50, Data: json.RawMessage(`{"step":1}`)}, nil) {
			select {
			case <-again: // only readers that are already listening get progress
				continue
			case <-received:
				yield(result(toolkit.Result{Output: json.RawMessage(`1`)}), nil)
			case <-ctx.Done():
			}
			return
		}
	}}
	more := make(chan struct{})
	provider := &fake{name: "fake", answer: func(ctx context.Context, n int, _ llm.Request, yield func(llm.Delta, error) bool) {
		if n == 0 {
			for _, d := range calls("a", "slow", "{}") {
				yield(d, nil)
			}
			return
		}
		for _, d := range says("first", " second") {
			if !yield(d, nil) {
				return
			}
			select {
			case <-more:
			case <-ctx.Done():
			}
		}
	}}
	p := startPairWith(t, url, chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, slow), NoTitles: true}, persistence.Options{})
	turn := p.turn(chat.TurnRequest{Text: "Go"})
	f, err := p.there.Follow(p.within(), p.key)
	must(t, err)
	var progress *chat.EventCall
	opened := false
	for e, err := range f.Events(p.within(), 0) {
		must(t, err)
		switch {
		case e.Type == chat.EventToolProgress && progress == nil:
			progress = e.Call
			close(received)
		case e.Type == chat.EventTextDelta && !opened:
			opened = true
			close(more) // nothing more is said until the first word has arrived
		}
	}
	p.wait(turn)
	if !opened || progress == nil || cmp.Or(progress.Message, "none") != "half way" || progress.Percent != 50 || string(progress.Data) != `{"step":1}` {
		t.Errorf("progress %+v, words while they came: %v", progress, opened)
	}
}

// TestFollowThroughAnOutage follows a turn of another process while the database crashes and comes back.
func TestFollowThroughAnOutage(t *testing.T) {
	t.Parallel()
	g := newGate()
	provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
		yield(llm.Delta{Text: "Before"}, nil)
		g.pass(ctx)
		yield(llm.Delta{Text: " and after.", Stop: llm.StopEnd}, nil)
	}}
	server := persistencetest.NewServer(t)
	p := startPairWith(t, server.URL(), chat.Config{Providers: []llm.Provider{provider}, NoTitles: true}, persistence.Options{})
	turn := p.turn(chat.TurnRequest{Text: "Go"})
	<-g.reached
	f, err := p.there.Follow(p.within(), p.key)
	must(t, err)
	server.Crash()
	if _, err := p.store.Message(p.within(), p.key, turn.MessageID()); !errors.Is(err, persistence.ErrUnavailable) {
		t.Errorf("Message() = %v", err)
	}
	next, stop := iter.Pull2(f.Events(p.within(), 0))
	defer stop()
	var starting sync.WaitGroup
	defer starting.Wait()
	starting.Go(server.Start)
	var events []chat.Event
	for e, err, ok := next(); ok; e, err, ok = next() {
		must(t, err)
		if events = append(events, e); len(events) == 1 {
			close(g.open)
		}
	}
	if got := course(events); !strings.HasPrefix(got, "start \nstep-start \ntext-start text-1\n\"Before and after.\"\ntext-end text-1\nstep-finish \nfinish ") {
		t.Errorf("another process reports\n%s", got)
	}
	p.wait(turn)
}

// TestFollowTheDead follows a turn whose process dies: it ends as interrupted.
func TestFollowTheDead(t *testing.T) {
	t.Parallel()
	g := newGate()
	provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
		yield(llm.Delta{Text: "I was"}, nil)
		g.pass(ctx)
	}}
	p := startPair(t, chat.Config{Providers: []llm.Provider{provider}, NoTitles: true})
	turn := p.turn(chat.TurnRequest{Text: "Go"})
	<-g.reached
	text := p.follower()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	var m thread.Message
	for m.Text() != "I was" { // when the turn saves that, it is in progress again
		<-again.C
		var err error
		if m, err = p.store.Message(p.within(), p.key, turn.MessageID()); err != nil {
			t.Fatal(err)
		}
	}
	m.Metadata.Status = thread.StatusInterrupted // as recovery does it, without further events
	if _, err := persistencetest.UpdateMessage(t.Context(), p.store, p.key, m); err != nil {
		t.Fatal(err)
	}
	if got := text(); !strings.Contains(got, fmt.Sprintf("finish  %s %s ", turn.ID(), turn.MessageID())) || !strings.Contains(got, "interrupted interrupted <nil>") {
		t.Errorf("another process reports\n%s", got)
	}
	turn.Interrupt()
	p.wait(turn)
}

// TestFollowerStops: a process that stops does not wait for the turns of others.
func TestFollowerStops(t *testing.T) {
	t.Parallel()
	g := newGate()
	provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, _ func(llm.Delta, error) bool) { g.pass(ctx) }}
	p := startPair(t, chat.Config{Providers: []llm.Provider{provider}, NoTitles: true})
	turn := p.turn(chat.TurnRequest{Text: "Go"})
	<-g.reached
	f, err := p.there.Follow(p.within(), p.key)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	must(t, p.there.Run(ctx))
	if _, err := f.Wait(p.within()); !errors.Is(err, chat.ErrClosed) {
		t.Errorf("Wait() = %v, want ErrClosed", err)
	}
	turn.Interrupt()
	p.wait(turn)
}

// Requests of another process are checked, and change no turn of another owner.
func TestHostileCommands(t *testing.T) {
	t.Parallel()
	g := newGate()
	provider := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, _ func(llm.Delta, error) bool) { g.pass(ctx) }}
	b := start(t, persistencetest.Open(t, persistencetest.SQLiteURL(t), persistence.Options{}), chat.Config{Providers: []llm.Provider{provider}, NoTitles: true})
	turn := b.turn(chat.TurnRequest{Text: "Go"})
	<-g.reached
	stranger := thread.Key{Owner: "bert", Thread: b.key.Thread}
	for name, c := range map[string]struct {
		command cluster.Command
		ok      bool
	}{
		"no kind":            {cluster.Command{Key: b.key}, false},
		"an unknown kind":    {cluster.Command{Key: b.key, Kind: "turn.begin"}, false},
		"a command of calls": {cluster.Command{Key: b.key, Kind: "call.hangup"}, false},
		"a stranger stops":   {cluster.Command{Key: stranger, Kind: "turn.stop"}, true},
		"nobody stops":       {cluster.Command{Kind: "turn.stop"}, true},
		"a broken body":      {cluster.Command{Key: b.key, Kind: "turn.yield", Body: json.RawMessage(`{`)}, true},
	} {
		if _, err := b.c.HandleCommand(t.Context(), c.command); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	select {
	case <-turn.Done():
		t.Error("the turn was stopped")
	default:
	}
	if _, err := b.c.HandleCommand(b.within(), cluster.Command{Key: b.key, Kind: "turn.stop"}); err != nil {
		t.Errorf("stop: %v", err)
	}
	if r := b.wait(turn); r.Finish != chat.FinishInterrupted {
		t.Errorf("Wait() = %+v", r)
	}
}
