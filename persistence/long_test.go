package persistence_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/export"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

// longSizes are the lengths of the threads that BenchmarkLong compares.
var longSizes = []int{100, 10_000, 100_000}

// Words in the sentences of the benchmarks: rareWord is in one message of a thread,
// commonWord in every message, farWord in every message of a stranger's thread.
const rareWord, commonWord, farWord = "zwetschge", "conversation", "elsewhere"

// long is a database with one long thread.
type long struct {
	url   string
	store *persistence.Store
	// key is the long thread, short is another thread of the same owner.
	key, short thread.Key
	amount     int
}

// BenchmarkLong runs the most frequent queries on threads of 100, 10,000 and 100,000 messages, and prints the median of
// each in microseconds. At the end it deletes the threads while somebody writes to another one.
func BenchmarkLong(b *testing.B) {
	for name, url := range persistencetest.URLs {
		b.Run(name, func(b *testing.B) {
			var all []*long
			for _, amount := range longSizes {
				all = append(all, newLong(b, url(b), amount))
			}
			for _, op := range longOps {
				b.Run(op.name, func(b *testing.B) {
					var same []operation
					for _, l := range all {
						same = append(same, timed(op.name, func(ctx context.Context) error { return op.run(ctx, l) }))
					}
					compare(b, longSizes, same)
				})
			}
			b.Run("delete", func(b *testing.B) { deleteLong(b, all) })
		})
	}
}

// longOps run in this order: after the reset, threads are as good as new.
var longOps = []struct {
	name string
	run  func(ctx context.Context, l *long) error
}{
	{"open", func(ctx context.Context, l *long) error {
		last, err := l.store.LastSeq(ctx, l.key)
		if err == nil {
			_, err = l.store.Messages(ctx, l.key, max(last-100, 0), 100)
		}
		return err
	}},
	{"turn, without its model", func(ctx context.Context, l *long) error {
		turn := persistence.NewID()
		err := l.store.Batch(ctx, l.key, func(w *persistence.Batch) error {
			_, err := w.AppendMessage(said())
			return errors.Join(err, w.ClaimTurn(turn))
		})
		if err != nil {
			return err
		}
		answer := said()
		answer.ID, answer.Role = persistence.NewID(), thread.RoleAssistant
		_, err = persistencetest.Apply(ctx, l.store, l.key, []persistence.Change{
			persistence.PutMessage{Message: answer, Turn: turn, Place: persistence.Place{How: persistence.PlaceLast}},
			persistence.PutTurn{ID: turn},
		})
		return err
	}},
	{"append", func(ctx context.Context, l *long) error { return l.say(ctx, l.key) }},
	{"rename", func(ctx context.Context, l *long) error {
		_, err := l.store.RenameThread(ctx, l.key, "renamed")
		return err
	}},
	{"list threads", search("")},
	{"page of messages", func(ctx context.Context, l *long) error {
		_, err := l.store.Messages(ctx, l.key, int64(l.amount/2), 100)
		return err
	}},
	{"last message", func(ctx context.Context, l *long) error {
		_, err := l.store.LastMessage(ctx, l.key)
		return err
	}},
	{"first bytes of an export", func(ctx context.Context, l *long) error {
		for _, err := range export.Messages(ctx, l.store, l.key) {
			return err
		}
		return nil
	}},
	{"search for a rare word", search(rareWord)},
	{"search for a common word", search(commonWord)},
	{"search for both", search(rareWord + " " + commonWord)},
	{"search for a stranger's word", search(farWord)},
	{"search for no word", search("qqqqqq")},
	{"search for three letters", search("sta")},
	{"search for a letter", search("z")},
	{"memories of rare words", memories(rareWord, "qqqqqq")},
	{"memories of common words", memories(commonWord, "common", "sentence", rareWord)},
	{"sum of what is stored", func(ctx context.Context, l *long) error {
		return l.store.Records.CheckStored(ctx, l.key.Owner, 1<<40)
	}},
	{"replay", replay},
	{"reset", func(ctx context.Context, l *long) error { return l.store.ResetThread(ctx, l.key) }},
	{"replay after a reset", replay},
}

func search(query string) func(context.Context, *long) error {
	return func(ctx context.Context, l *long) error {
		_, _, err := l.store.Threads(ctx, l.key.Owner, persistence.ThreadFilter{Query: query})
		return err
	}
}

func memories(words ...string) func(context.Context, *long) error {
	return func(ctx context.Context, l *long) error {
		_, err := l.store.SearchMessages(ctx, l.short, words, 10)
		return err
	}
}

func replay(ctx context.Context, l *long) error {
	_, err := l.store.Replay(ctx, l.key, 20)
	return err
}

func (l *long) say(ctx context.Context, key thread.Key) error {
	_, err := persistencetest.AppendMessage(ctx, l.store, key, said())
	return err
}

// report prints the medians.
func report(b *testing.B, amounts []int, unit string, took [][]time.Duration) {
	b.Helper()
	per := time.Millisecond
	if unit == "µs" {
		per = time.Microsecond
	}
	for i, amount := range amounts {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2])/float64(per), fmt.Sprintf("%s@%d", unit, amount))
	}
	b.ReportMetric(0, "ns/op")
}

// deleteLong deletes the threads, and reports how long it takes until the call returns and
// until nothing is left of them, and the longest write to another thread meanwhile.
func deleteLong(b *testing.B, all []*long) {
	answered, gone, longest := make([][]time.Duration, len(all)), make([][]time.Duration, len(all)), make([][]time.Duration, len(all))
	for i, l := range all {
		must(b, l.store.Serve(b.Context()))
		began := time.Now()
		deleted, erased := make(chan error, 1), make(chan time.Duration, 1)
		go func() {
			err := l.store.DeleteThread(b.Context(), l.key)
			answered[i] = append(answered[i], time.Since(began))
			deleted <- err
			erased <- l.erased(b, began)
		}()
		var worst time.Duration
		for going := true; going; {
			at := time.Now()
			must(b, l.say(b.Context(), l.short))
			worst = max(worst, time.Since(at))
			select {
			case took := <-erased:
				gone[i], going = append(gone[i], took), false
			case <-time.After(time.Millisecond):
			}
		}
		must(b, <-deleted)
		longest[i] = append(longest[i], worst)
	}
	for b.Loop() { // runs once, whatever -benchtime says
	}
	report(b, longSizes, "ms-answer", answered)
	report(b, longSizes, "ms-gone", gone)
	report(b, longSizes, "ms-longest-write", longest)
}

// erased waits until nothing is left of a deleted thread, not even in SQLite's search
// index.
func (l *long) erased(b *testing.B, since time.Time) time.Duration {
	query := "SELECT count(*) FROM threads WHERE owner = ''"
	if strings.HasPrefix(l.url, "sqlite") {
		query = "SELECT count(*) + (SELECT amount FROM message_index_deleted) FROM threads WHERE owner = ''"
	}
	for persistencetest.Rows(b, l.url, query)[0][0] != "0" {
		<-time.After(50 * time.Millisecond)
	}
	return time.Since(since)
}

// newLong fills a database with one long thread, a stranger's one, and many short ones.
func newLong(b *testing.B, url string, amount int) *long {
	b.Helper()
	l := &long{url: url, store: persistencetest.Open(b, url, persistence.Options{}), amount: amount}
	l.key = l.thread(b, "bench", amount, commonWord)
	l.thread(b, "stranger", 3000, farWord)
	for range 200 {
		l.short = l.thread(b, "bench", 5, "")
	}
	if strings.HasPrefix(url, "postgres") {
		persistencetest.Rows(b, url, "VACUUM ANALYZE") // autovacuum would do it after a minute
	}
	must(b, persistence.Index(b.Context(), l.store))
	return l
}

// thread makes a thread. With a word given, one message contains the rare word.
func (l *long) thread(b *testing.B, owner string, amount int, word string) thread.Key {
	b.Helper()
	key := persistencetest.NewThread(b, l.store, owner, "")
	random := rand.New(rand.NewPCG(1, uint64(amount))) //nolint:gosec // no secret
	for n := 0; n < amount; {
		var changes []persistence.Change
		for range min(1000, amount-n) {
			words := sentence(random) + " " + word
			if n == amount/2 && word == commonWord {
				words += " " + rareWord
			}
			changes = append(changes, persistence.PutMessage{
				Message: thread.Message{ID: persistence.NewID(), Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart(words)}},
				Place:   persistence.Place{How: persistence.PlaceLast},
			})
			n++
		}
		if _, err := persistencetest.Apply(b.Context(), l.store, key, changes); err != nil {
			b.Fatal(err)
		}
	}
	return key
}

// sentence makes about a hundred letters of words, some more frequent than others.
func sentence(random *rand.Rand) string {
	syllables := strings.Fields("ka lo mi ne ru sta pre con ver tion al er ing th ou str be de fi gu ha in jo le mo na op re se tu un vi wa bra cho dri")
	words := make([]string, 16)
	for i := range words {
		word := rand.New(rand.NewPCG(2, uint64(random.ExpFloat64()*400))) //nolint:gosec // no secret
		for range 1 + word.IntN(4) {
			words[i] += syllables[word.IntN(len(syllables))]
		}
	}
	return strings.Join(words, " ")
}
