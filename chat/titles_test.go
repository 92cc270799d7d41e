package chat_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

func TestLocalTitle(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Hello": "Hello",
		"Was ist der größte See in Österreich?":                   "Was ist der größte See in…",
		"one two three four five six":                             "one two three four five six",
		"# **Fix** `it`: [docs](https://a.b/c) https://x.y/z now": "Fix it : docs now",
		"```go\nfunc main() {}\n```\nWhat does it do?":            "What does it do?",
		"日本語のとても長い文章です" + strings.Repeat("長", 80):                 "日本語のとても長い文章です" + strings.Repeat("長", 46) + "…",
		"?!… --":     "",
		"":           "",
		"\xff\x00hi": "\x00hi",
	} {
		if got := chat.LocalTitle(text); got != want || !utf8.ValidString(got) {
			t.Errorf("LocalTitle(%q) = %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"\n\"Lakes of Austria.\"\nI chose this because": "Lakes of Austria",
		"Title: **Seen**":            "Seen",
		"```\n# Generics in C#\n```": "Generics in C#",
		"「日本の湖」":                     "日本の湖",
		" \n ":                       "",
		"„Große Seen“":               "Große Seen",
		strings.Repeat("ü", 200):     strings.Repeat("ü", 59) + "…",
		"\xff\xfe" + "Bytes":         "Bytes",
	} {
		testkit.Equal(t, chat.CleanTitle(text), want, "CleanTitle(%q)", text)
	}
}

// title waits until all goroutines are idle and reads the thread's title.
func (b *bench) title() persistence.Thread {
	b.t.Helper()
	synctest.Wait()
	thread, err := b.store.Thread(b.t.Context(), b.key)
	must(b.t, err)
	return thread
}

func TestTitles(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		release := make(chan struct{})
		provider := &fake{name: "fake", title: "\"Lakes of Austria\"\n", answer: func(_ context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
			<-release
			yield(llm.Delta{Text: "The Bodensee.", Stop: llm.StopEnd}, nil)
		}}
		told := &titleObserver{}
		b := start(t, store, chat.Config{Providers: []llm.Provider{provider}, Observers: []chat.TurnObserver{told}})
		var published []string
		ctx, cancel := context.WithCancel(t.Context())
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for e, err := range store.Watch(b.key).Events(ctx, -1) {
				if err == nil && e.Type == "thread_titled" {
					published = append(published, string(e.Data))
				}
			}
		}()
		synctest.Wait()
		turn := b.turn(chat.TurnRequest{Text: "What is the largest lake in Austria?"})
		if got := b.title(); got.Title != "What is the largest lake in…" || got.TitleBy != persistence.TitleByWords {
			t.Errorf("the first title is %q by %q", got.Title, got.TitleBy)
		}
		close(release)
		b.wait(turn)
		if got := b.title(); got.Title != "Lakes of Austria" || got.TitleBy != persistence.TitleByModel {
			t.Errorf("the second title is %q by %q", got.Title, got.TitleBy)
		}
		b.say("And the deepest?")
		synctest.Wait()
		testkit.Equal(t, len(provider.titled()), 1, "the model was asked for titles")
		testkit.Equal(t, provider.titled()[0].Messages[0].Content, "user: What is the largest lake in Austria?\nassistant: The Bodensee.\n", "the model reads")
		cancel()
		<-watched
		checkText(t, "what was told", strings.Join(published, " "), `{"title":"What is the largest lake in…"} {"title":"Lakes of Austria"}`)
		b.stop()
		checkText(t, "observed requests", strings.Join(told.requests, " "), "fake completed title")
	})
}

// titleObserver records requests for titles.
type titleObserver struct{ requests []string }

func (o *titleObserver) TurnFinished(context.Context, chat.TurnReport) {}

func (o *titleObserver) RequestFinished(provider string, r records.Response) {
	o.requests = append(o.requests, provider+" "+r.Status+" "+string(r.Kind))
}

// TestTitlesOfUsers: a user's title never changes, and a failing model is not asked
// forever.
func TestTitlesOfUsers(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		provider := deltas(says("ok"))
		b := start(t, store, chat.Config{Providers: []llm.Provider{provider}})
		for range 6 {
			b.say("Good morning to you")
			synctest.Wait()
		}
		if got := b.title(); got.Title != "Good morning to you" || len(provider.titled()) != 3 {
			t.Errorf("after failures the title is %q, %d requests", got.Title, len(provider.titled()))
		}
		provider.mu.Lock()
		provider.title = "Mine"
		provider.mu.Unlock()
		thread, err := store.CreateThread(t.Context(), "anna", "my own")
		must(t, err)
		b.key.Thread = thread.ID
		b.say("Good morning")
		if got := b.title(); got.Title != "my own" || len(provider.titled()) != 3 {
			t.Errorf("the user's title is now %q", got.Title)
		}
		b.stop()
	})
}

// TestTitlesOfCalls names a thread that was only spoken.
func TestTitlesOfCalls(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		provider := deltas(says("ok"))
		provider.title = "Spoken words"
		b := start(t, store, chat.Config{Providers: []llm.Provider{provider}})
		add := func(m thread.Message) {
			m.Metadata.Source = thread.SourceVoice
			if _, err := persistencetest.AppendMessage(t.Context(), store, b.key, m); err != nil {
				t.Fatal(err)
			}
			b.c.Talked(b.key)
		}
		for range 60 { // more than are read at once
			add(words(thread.RoleAssistant, "Hello!"))
			synctest.Wait()
		}
		if got := b.title(); got.Title != "" {
			t.Errorf("a greeting gives the title %q", got.Title)
		}
		add(words(thread.RoleUser, "Tell me of lakes"))
		if got := b.title(); got.Title != "Tell me of lakes" {
			t.Errorf("a question gives the title %q", got.Title)
		}
		add(words(thread.RoleAssistant, "They are wet."))
		if got := b.title(); got.Title != "Spoken words" {
			t.Errorf("an answer gives the title %q", got.Title)
		}
		// Another thread with the same id begins with the same numbers.
		must(t, errors.Join(store.DeleteThread(t.Context(), b.key), sleep(t.Context(), time.Second)))
		if _, err := store.EnsureThread(t.Context(), b.key); err != nil {
			t.Fatal(err)
		}
		add(words(thread.RoleUser, "Tell me of rivers"))
		if got := b.title(); got.Title != "Tell me of rivers" {
			t.Errorf("the thread that was made again has the title %q", got.Title)
		}
		b.stop()
	})
}

// observer counts the turns that it is told about.
type observer struct {
	reports chan chat.TurnReport
	first   func()
}

func (o observer) TurnFinished(_ context.Context, r chat.TurnReport) {
	o.first()
	o.reports <- r
}

func TestObservers(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		b := &bench{}
		reports := make(chan chat.TurnReport, 2)
		panics := observer{reports: nil, first: func() { panic("oh") }}
		good := observer{reports: reports, first: func() {
			// The thread is free by now.
			if busy, err := b.c.Busy(t.Context(), b.key); busy || err != nil {
				t.Errorf("Busy() in an observer = %v, %v", busy, err)
			}
		}}
		b = start(t, store, chat.Config{Providers: []llm.Provider{deltas(says("ok"))}, Observers: []chat.TurnObserver{panics, good}, NoTitles: true})
		b.say("Go") // does not wait for observers
		if r := <-reports; r.Result.Text != "ok" || r.Key != b.key {
			t.Errorf("the observer got %+v", r)
		}
		b.stop()
	})
}

// contextFunc is a ContextBuilder.
type contextFunc func(ctx context.Context, in chat.ContextInput) (string, error)

func (f contextFunc) Context(ctx context.Context, in chat.ContextInput) (string, error) {
	return f(ctx, in)
}

func TestContext(t *testing.T) {
	for name, c := range map[string]struct {
		build contextFunc
		want  string
	}{
		"words":   {func(context.Context, chat.ContextInput) (string, error) { return "[CONTEXT: x]", nil }, "[CONTEXT: x]\n\nGo"},
		"nothing": {func(context.Context, chat.ContextInput) (string, error) { return "", nil }, "Go"},
		"panic":   {func(context.Context, chat.ContextInput) (string, error) { panic("oh") }, "Go"},
		"slow": {func(ctx context.Context, _ chat.ContextInput) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}, "Go"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *persistence.Store) {
				provider := deltas(says("ok"))
				b := start(t, store, chat.Config{Providers: []llm.Provider{provider}, Context: c.build, NoTitles: true})
				begun := time.Now()
				b.say("Go")
				if got := provider.seen()[0].Messages[0].Content; got != c.want || time.Since(begun) > 3*time.Second {
					t.Errorf("the request says %q after %v", got, time.Since(begun))
				}
				checkText(t, "the thread", outline(b.messages()), "user completed: \"Go\"\nassistant completed: | \"ok\"")
				b.stop()
			})
		})
	}
}

// TestMemories finds what was said in other threads.
func TestMemories(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		store := open(t)
		zone := time.FixedZone("CET", 3600)
		clock := &chat.DefaultContext{Location: zone, Memories: store}
		key := persistencetest.NewThread(t, store, "anna", "")
		for _, m := range []thread.Message{
			words(thread.RoleUser, "My favourite lake is the Bodensee [really]\nyes"),
			words(thread.RoleAssistant, "The weather is fine. Look into that carton."),
			words(thread.RoleUser, "My dog Rex likes cheese"),
			words(thread.RoleUser, "What do you know about my dog?"),
		} {
			m.Metadata.CreatedAt = time.Date(2026, 1, 2, 23, 30, 0, 0, time.UTC)
			if _, err := persistencetest.AppendMessage(t.Context(), store, key, m); err != nil {
				t.Fatal(err)
			}
		}
		now := time.Date(2026, 11, 21, 7, 30, 0, 0, time.UTC)
		for text, want := range map[string]string{
			"What is my favourite lake?":     `[CONTEXT: date and time: Saturday, 21 November 2026, 08:30 CET; on 3 January 2026 in another conversation the user said: "My favourite lake is the Bodensee (really) yes"]`,
			"What do you know about my dog?": `[CONTEXT: date and time: Saturday, 21 November 2026, 08:30 CET; on 3 January 2026 in another conversation the user said: "My dog Rex likes cheese"]`,
			"Which lakes do I like?":         `[CONTEXT: date and time: Saturday, 21 November 2026, 08:30 CET; on 3 January 2026 in another conversation the user said: "My favourite lake is the Bodensee (really) yes"]`,
			"Do dogs eat cheeses?":           `[CONTEXT: date and time: Saturday, 21 November 2026, 08:30 CET; on 3 January 2026 in another conversation the user said: "My dog Rex likes cheese"; on 3 January 2026 in another conversation the user said: "What do you know about my dog?"]`,
			"What do I do?":                  `[CONTEXT: date and time: Saturday, 21 November 2026, 08:30 CET]`,
			"Do I have a car?":               `[CONTEXT: date and time: Saturday, 21 November 2026, 08:30 CET]`,
			"Something else entirely":        `[CONTEXT: date and time: Saturday, 21 November 2026, 08:30 CET]`,
			"a b c":                          `[CONTEXT: date and time: Saturday, 21 November 2026, 08:30 CET]`,
		} {
			got, err := clock.Context(t.Context(), chat.ContextInput{Key: thread.Key{Owner: "anna", Thread: "here"}, Text: text, Now: now})
			if err != nil || got != want {
				t.Errorf("Context(%q) = %s, %v, want %s", text, got, err, want)
			}
			got, err = clock.Context(t.Context(), chat.ContextInput{Key: thread.Key{Owner: "bert", Thread: "here"}, Text: text, Now: now})
			if err != nil || strings.Contains(got, "Bodensee") {
				t.Errorf("Context() of another owner = %s, %v", got, err)
			}
		}
	})
}
