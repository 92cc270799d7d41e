// Package measure measures what depends on a machine, a network or an amount, and checks nothing: `make measure`.
package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/queued"
	"voicebridge/thread"
)

var must = testkit.Must

func TestMain(m *testing.M) { persistencetest.Main(m) }

// database is a new one that is filled.
type database struct {
	url    string
	store  *persistence.Store
	key    thread.Key
	amount int
}

// operation is what is measured beside few and many of something.
type operation struct {
	name string
	run  func(context.Context) error
}

// growths are what costs are compared for. fill adds the amount to a database.
var growths = []struct {
	name    string
	amounts []int
	engines []string
	fill    func(*testing.B, *database) []operation
}{
	{"messages of a thread", []int{100, 10_000, 100_000}, []string{"sqlite", "postgres"}, fillThread},
	{"threads of an owner", []int{10, 1000, 10_000}, []string{"sqlite", "postgres"}, fillThreads},
	{"followers", []int{1, 100, 1000}, []string{"sqlite", "postgres"}, func(b *testing.B, d *database) []operation { return d.follow(b, d.store) }},
	{"followers in another process", []int{1, 100, 1000}, []string{"postgres"}, func(b *testing.B, d *database) []operation { return d.follow(b, d.serving(b)) }},
	{"messages in a queue", []int{10, 1000, 10_000}, []string{"sqlite", "postgres"}, fillQueue},
	{"processes", []int{1, 2, 4}, []string{"postgres"}, fillProcesses},
}

// BenchmarkGrowth reports, for each amount, the median of what is frequent in µs, and the exponent of its growth: 0 is flat,
// 1 linear. What was done once is done again with each amount in turn, so that whatever else the machine does slows all alike.
func BenchmarkGrowth(b *testing.B) {
	for _, g := range growths {
		for _, engine := range g.engines {
			b.Run(g.name+"/"+engine, func(b *testing.B) {
				var all [][]operation
				for _, amount := range g.amounts {
					url := persistencetest.URLs[engine](b)
					d := &database{url: url, amount: amount}
					d.store = d.serving(b)
					d.key = persistencetest.NewThread(b, d.store, "anna", "")
					all = append(all, g.fill(b, d))
					if engine == "postgres" {
						persistencetest.Rows(b, url, "VACUUM ANALYZE") // autovacuum would do it after a minute
						continue
					}
					testkit.Eventually(b, "the search index", func() bool {
						return persistencetest.Rows(b, url, "SELECT count(*) FROM unindexed_messages")[0][0] == "0"
					})
				}
				for o := range all[0] {
					b.Run(all[0][o].name, func(b *testing.B) {
						took := make([][]float64, len(g.amounts))
						for b.Loop() {
							for i := range g.amounts {
								began := time.Now()
								must(b, all[i][o].run(b.Context()))
								took[i] = append(took[i], float64(time.Since(began).Microseconds()))
							}
						}
						report(b, "µs", g.amounts, took)
					})
				}
			})
		}
	}
}

// report reports the medians, and by which power of the amount they grow (least squares of the logarithms).
func report(b *testing.B, unit string, amounts []int, figures [][]float64) {
	var n, sx, sy, sxx, sxy float64
	for i, amount := range amounts {
		slices.Sort(figures[i])
		median := figures[i][len(figures[i])/2]
		b.ReportMetric(median, fmt.Sprintf("%s@%d", unit, amount))
		x, y := math.Log(float64(amount)), math.Log(max(median, 1))
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	b.ReportMetric((n*sxy-sx*sy)/(n*sxx-sx*sx), "exponent")
	b.ReportMetric(0, "ns/op")
}

// serving opens the database, as each process does.
func (d *database) serving(b *testing.B) *persistence.Store {
	s := persistencetest.Open(b, d.url, persistence.Options{})
	must(b, s.Serve(b.Context()))
	return s
}

// rare is a word of one message, common of every one.
const rare, common = "zwetschge", "conversation"

func said(n int, more string) thread.Message {
	return thread.Message{ID: persistence.NewID(), Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart(fmt.Sprintf("sentence %d of a %s %s", n, common, more))}}
}

// put adds so many messages to a thread, of which one has the rare word.
func (d *database) put(b *testing.B, key thread.Key, amount int) {
	var changes []persistence.Change
	for n := range amount {
		words := ""
		if n == amount/2 {
			words = rare
		}
		changes = append(changes, persistence.PutMessage{Message: said(n, words), Place: persistence.Place{How: persistence.PlaceLast}})
		if len(changes) == 1000 || n == amount-1 {
			_, err := persistencetest.Apply(b.Context(), d.store, key, changes)
			must(b, err)
			changes = nil
		}
	}
}

func (d *database) say(ctx context.Context, from *persistence.Store, key thread.Key) error {
	_, err := persistencetest.AppendMessage(ctx, from, key, said(0, ""))
	return err
}

// finds are searches of the owner's threads.
func (d *database) finds() (all []operation) {
	for name, query := range map[string]string{"list threads": "", "search for a rare word": rare, "search for a common word": common, "search for a letter": "z"} {
		all = append(all, operation{name, func(ctx context.Context) error {
			_, _, err := d.store.Threads(ctx, "anna", persistence.ThreadFilter{Query: query})
			return err
		}})
	}
	slices.SortFunc(all, func(a, b operation) int { return len(a.name) - len(b.name) })
	return all
}

// fillThread makes one thread long.
func fillThread(b *testing.B, d *database) []operation {
	d.put(b, d.key, d.amount)
	return append(d.finds(), operation{"append", func(ctx context.Context) error { return d.say(ctx, d.store, d.key) }},
		operation{"page", func(ctx context.Context) error {
			_, err := d.store.Messages(ctx, d.key, int64(d.amount/2), 100)
			return err
		}},
		operation{"replay", func(ctx context.Context) error {
			_, err := d.store.Replay(ctx, d.key, 20)
			return err
		}},
		operation{"memories", func(ctx context.Context) error {
			_, err := d.store.SearchMessages(ctx, thread.Key{Owner: "anna", Thread: "another"}, []string{common, rare}, 10)
			return err
		}})
}

// fillThreads gives the owner threads of five messages.
func fillThreads(b *testing.B, d *database) []operation {
	for i := range d.amount {
		d.put(b, persistencetest.NewThread(b, d.store, "anna", fmt.Sprint("thread ", i)), 5)
	}
	return append(d.finds(), operation{"create and delete", func(ctx context.Context) error {
		row, err := d.store.CreateThread(ctx, "anna", "")
		return errors.Join(err, d.store.DeleteThread(ctx, thread.Key{Owner: "anna", Thread: row.ID}))
	}})
}

// follow begins to watch the thread, as many times as the amount says.
func (d *database) follow(b *testing.B, from *persistence.Store) []operation {
	got := make(chan struct{}, d.amount)
	for range d.amount {
		watch := from.Watch(d.key)
		persistencetest.Start(b, func(ctx context.Context) error {
			for _, err := range watch.Events(ctx, 0) {
				if err != nil {
					return ctx.Err()
				}
				got <- struct{}{}
			}
			return nil
		})
	}
	return []operation{{"until the last one has a message", func(ctx context.Context) error {
		err := d.say(ctx, d.store, d.key)
		for range d.amount {
			testkit.Receive(b, "a message at each follower", got)
		}
		return err
	}}}
}

// fillQueue makes one thread's queue long.
func fillQueue(b *testing.B, d *database) []operation {
	add := func(ctx context.Context) (queued.Message, error) {
		m, _, err := d.store.Queued.Add(ctx, d.key, queued.Message{Text: "waits"}, 1_000_000)
		return m, err
	}
	for range d.amount {
		_, err := add(b.Context())
		must(b, err)
	}
	return []operation{
		{"claim and give back", func(ctx context.Context) error {
			c, err := d.store.Queued.Claim(ctx, d.key, queued.ClaimOptions{})
			if err != nil || c.Message == nil {
				return errors.Join(err, errors.New("nothing to claim"))
			}
			_, err = d.store.Queued.Requeue(ctx, d.key, c.Message.ID, c.Message.Attempts, queued.Requeue{})
			return err
		}},
		{"add and cancel", func(ctx context.Context) error {
			m, err := add(ctx)
			_, failed := d.store.Queued.Remove(ctx, d.key, m.ID)
			return errors.Join(err, failed)
		}},
		{"list", func(ctx context.Context) error {
			_, _, err := d.store.Queued.List(ctx, d.key)
			return err
		}},
		{"find queues to send from", func(ctx context.Context) error {
			_, err := d.store.Queued.Due(ctx, 64)
			return err
		}},
	}
}

// fillProcesses has several stores serve one database, and all write at the same time.
func fillProcesses(b *testing.B, d *database) []operation {
	keys := map[*persistence.Store]thread.Key{}
	for range d.amount {
		keys[d.serving(b)] = persistencetest.NewThread(b, d.store, "anna", "")
	}
	return []operation{{"20 messages of each", func(ctx context.Context) error {
		failed := make(chan error, len(keys))
		for s, key := range keys {
			go func() {
				var err error
				for range 20 {
					err = errors.Join(err, d.say(ctx, s, key))
				}
				failed <- err
			}()
		}
		var all error
		for range keys {
			err, _ := testkit.Receive(b, "all messages", failed)
			all = errors.Join(all, err)
		}
		return all
	}}}
}

// BenchmarkIdle reports how many transactions a second idle programs make on the same PostgreSQL: heartbeats, and looking for
// the work that nobody else has claimed.
func BenchmarkIdle(b *testing.B) {
	amounts := []int{1, 2, 4}
	const window = 20 * time.Second
	for b.Loop() {
		figures := make([][]float64, len(amounts))
		for i, amount := range amounts {
			url := persistencetest.PostgresURL(b)
			count := func(query string) float64 {
				n, err := strconv.ParseFloat(persistencetest.Rows(b, url, query)[0][0], 64)
				must(b, err)
				return n
			}
			for range amount {
				program(b, "DATABASE_URL="+url)
			}
			testkit.Eventually(b, "all programs", func() bool { return count("SELECT count(*) FROM instances") == float64(amount) })
			const done = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
			before := count(done)
			<-time.After(window)
			figures[i] = append(figures[i], (count(done)-before)/window.Seconds())
		}
		report(b, "per-s", amounts, figures)
	}
}
