package persistence_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/hooked"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/queued"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// operation returns how long what is measured took, without what it does before and after.
type operation struct {
	name string
	run  func(context.Context) (time.Duration, error)
}

// timed is an operation of which everything is measured.
func timed(name string, run func(context.Context) error) operation {
	return operation{name, func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		err := run(ctx)
		return time.Since(began), err
	}}
}

// compare runs the same operation at each amount in turn, so that whatever else the machine does slows all of them
// alike, and prints the medians as value µs@amount.
func compare(b *testing.B, amounts []int, operations []operation) {
	took := make([][]time.Duration, len(amounts))
	for b.Loop() {
		for i, o := range operations {
			d, err := o.run(b.Context())
			must(b, err)
			took[i] = append(took[i], d)
		}
	}
	report(b, amounts, "µs", took)
}

// sized is a new database that is filled.
type sized struct {
	url    string
	store  *persistence.Store
	key    thread.Key
	amount int
}

// sizes are what costs are compared for. fill adds the amount to a database, and returns the operations.
var sizes = []struct {
	name    string
	amounts []int
	// postgres means that it concerns several processes, which SQLite cannot have.
	postgres bool
	fill     func(*testing.B, *sized) []operation
}{
	{"followers", []int{1, 100, 1000}, false, fillFollowers},
	{"followers in another process", []int{1, 100, 1000}, true, fillFarFollowers},
	{"threads of an owner", []int{10, 1000, 10_000}, false, fillThreads},
	{"messages in a queue", []int{10, 1000, 10_000}, false, fillQueue},
	{"threads with queues", []int{10, 1000, 10_000}, false, fillQueues},
	{"deliveries of a hook", []int{10, 1000, 10_000}, false, fillDeliveries},
	{"calls to read", []int{10, 1000, 10_000}, false, fillExtractions},
	{"sessions to hang up", []int{10, 1000, 10_000}, false, fillLegs},
	{"processes", []int{1, 2, 4}, true, fillProcesses},
}

// BenchmarkSizes measures what is frequent beside few and many followers, threads, jobs and processes, on both engines.
func BenchmarkSizes(b *testing.B) {
	for _, s := range sizes {
		for engine, newURL := range persistencetest.URLs {
			if s.postgres && engine != "postgres" {
				continue
			}
			b.Run(s.name+"/"+engine, func(b *testing.B) {
				var all [][]operation
				for _, amount := range s.amounts {
					url := newURL(b)
					d := &sized{url: url, store: persistencetest.Open(b, url, persistence.Options{}), amount: amount}
					d.key = persistencetest.NewThread(b, d.store, "anna", "")
					all = append(all, s.fill(b, d))
					if engine == "postgres" {
						persistencetest.Rows(b, url, "VACUUM ANALYZE") // autovacuum would do it after a minute
					}
				}
				for i, o := range all[0] {
					b.Run(o.name, func(b *testing.B) {
						var same []operation
						for _, operations := range all {
							same = append(same, operations[i])
						}
						compare(b, s.amounts, same)
					})
				}
			})
		}
	}
}

// numbers are the numbers from 2 to the amount, for a query that copies the first row.
func (d *sized) numbers() string {
	return fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < %d) ", d.amount)
}

// copied copies a row of a table as often as the amount says. Columns are those that differ, with their values from the
// number i.
func (d *sized) copied(b *testing.B, table string, differ map[string]string) {
	b.Helper()
	columns := []string{}
	probe := "SELECT name FROM pragma_table_info('" + table + "')"
	if strings.HasPrefix(d.url, "postgres") {
		probe = "SELECT column_name FROM information_schema.columns WHERE table_name = '" + table + "'"
	}
	for _, row := range persistencetest.Rows(b, d.url, probe) {
		columns = append(columns, row[0])
	}
	values := slices.Clone(columns)
	for i, c := range columns {
		if v := differ[c]; v != "" {
			values[i] = v
		}
	}
	first := fmt.Sprintf("(SELECT * FROM %s LIMIT 1) AS x", table)
	persistencetest.Rows(b, d.url, fmt.Sprintf("%sINSERT INTO %s (%s) SELECT %s FROM %s, n",
		d.numbers(), table, strings.Join(columns, ", "), strings.Join(values, ", "), first))
}

// follow begins to watch the thread, as many times as the amount says, and returns what says a message and waits until
// every follower has it: measured until it is saved, or until the last one has it.
func (d *sized) follow(b *testing.B, from *persistence.Store) []operation {
	b.Helper()
	got := make(chan struct{}, d.amount)
	for range d.amount {
		watch := from.Watch(d.key)
		persistencetest.Start(b, func(ctx context.Context) error {
			for _, err := range watch.Events(ctx, 0) {
				if errors.Is(err, context.Canceled) {
					return nil
				}
				if err != nil {
					return err
				}
				got <- struct{}{}
			}
			return nil
		})
	}
	say := func(ctx context.Context) (saved, last time.Duration, err error) {
		began := time.Now()
		_, err = persistencetest.AppendMessage(ctx, d.store, d.key, said())
		saved = time.Since(began)
		for range d.amount {
			select {
			case <-got:
			case <-ctx.Done():
				return 0, 0, ctx.Err()
			}
		}
		return saved, time.Since(began), err
	}
	return []operation{
		{"a message, until it is saved", func(ctx context.Context) (time.Duration, error) {
			saved, _, err := say(ctx)
			return saved, err
		}},
		{"until the last one has it", func(ctx context.Context) (time.Duration, error) {
			_, last, err := say(ctx)
			return last, err
		}},
	}
}

func said() thread.Message {
	return thread.Message{Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("a common sentence of the conversation")}}
}

func fillFollowers(b *testing.B, d *sized) []operation { return d.follow(b, d.store) }

func fillFarFollowers(b *testing.B, d *sized) []operation {
	far := persistencetest.Open(b, d.url, persistence.Options{})
	must(b, d.store.Serve(b.Context()))
	must(b, far.Serve(b.Context()))
	return d.follow(b, far)
}

// fillThreads gives the owner threads of five messages.
func fillThreads(b *testing.B, d *sized) []operation {
	var changes []persistence.ThreadChanges
	for i := range d.amount {
		one := persistence.ThreadChanges{Key: persistencetest.NewThread(b, d.store, "anna", fmt.Sprint("thread ", i))}
		for n := range 5 {
			words := fmt.Sprint("a common sentence ", n)
			if i == d.amount/2 {
				words += " " + rareWord
			}
			m := thread.Message{ID: persistence.NewID(), Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart(words)}}
			one.Changes = append(one.Changes, persistence.PutMessage{Message: m, Place: persistence.Place{How: persistence.PlaceLast}})
		}
		if changes = append(changes, one); len(changes) == 500 || i == d.amount-1 {
			_, err := d.store.ApplyAll(b.Context(), changes)
			must(b, err)
			changes = nil
		}
	}
	must(b, persistence.Index(b.Context(), d.store))
	find := func(name, query string) operation {
		return timed(name, func(ctx context.Context) error {
			_, _, err := d.store.Threads(ctx, "anna", persistence.ThreadFilter{Query: query})
			return err
		})
	}
	created := thread.Key{Owner: "anna"}
	return []operation{
		find("list", ""), find("search for a rare word", rareWord), find("search for a common word", "common"),
		find("search for a letter", "z"),
		timed("create", func(ctx context.Context) error {
			_, err := d.store.CreateThread(ctx, "anna", "")
			return err
		}),
		{"delete", func(ctx context.Context) (time.Duration, error) {
			row, err := d.store.CreateThread(ctx, "anna", "")
			created.Thread = row.ID
			if err != nil {
				return 0, err
			}
			began := time.Now()
			err = d.store.DeleteThread(ctx, created)
			return time.Since(began), err
		}},
	}
}

// fillQueue makes one thread's queue long.
func fillQueue(b *testing.B, d *sized) []operation {
	add := func(ctx context.Context) (queued.Message, error) {
		m, _, err := d.store.Queued.Add(ctx, d.key, queued.Message{Text: "waits"}, 1_000_000)
		return m, err
	}
	_, err := add(b.Context())
	must(b, err)
	d.copied(b, "queued_messages", map[string]string{"id": "'q-' || i", "position": "i", "message_id": "'m' || i"})
	return []operation{
		timed("claim and give back", func(ctx context.Context) error {
			c, err := d.store.Queued.Claim(ctx, d.key, queued.ClaimOptions{})
			if err != nil || c.Message == nil {
				return errors.Join(err, errors.New("nothing to claim"))
			}
			_, err = d.store.Queued.Requeue(ctx, d.key, c.Message.ID, c.Message.Attempts, queued.Requeue{})
			return err
		}),
		timed("list", func(ctx context.Context) error {
			_, _, err := d.store.Queued.List(ctx, d.key)
			return err
		}),
		timed("add and cancel", func(ctx context.Context) error {
			m, err := add(ctx)
			if err == nil {
				_, err = d.store.Queued.Remove(ctx, d.key, m.ID)
			}
			return err
		}),
		timed("is anything waiting", func(ctx context.Context) error {
			_, err := d.store.Queued.Unsent(ctx, d.key)
			return err
		}),
		timed("length", func(ctx context.Context) error {
			_, err := d.store.Queued.Length(ctx, d.key)
			return err
		}),
		d.due(),
	}
}

// due is what every process asks now and then.
func (d *sized) due() operation {
	return timed("find queues to send from", func(ctx context.Context) error {
		_, err := d.store.Queued.Due(ctx, 64)
		return err
	})
}

// fillQueues has a message wait in each of many threads.
func fillQueues(b *testing.B, d *sized) []operation {
	_, _, err := d.store.Queued.Add(b.Context(), d.key, queued.Message{Text: "waits"}, 0)
	must(b, err)
	d.copied(b, "threads", map[string]string{"id": "'t' || i"})
	d.copied(b, "queued_messages", map[string]string{"id": "'q-' || i", "message_id": "'m' || i", "thread_id": "'t' || i"})
	return []operation{d.due()}
}

// fillDeliveries has events wait for a hook.
func fillDeliveries(b *testing.B, d *sized) []operation {
	hook, err := d.store.Hooks.Add(b.Context(), hooked.Hook{
		Owner: "anna", URL: "https://example.com/", Events: []string{"*"}, Enabled: true, Secret: "s",
	})
	must(b, err)
	_, err = d.store.Hooks.Test(b.Context(), "anna", hook.ID)
	must(b, err)
	d.copied(b, "hook_deliveries", map[string]string{"id": "'d' || i"})
	return []operation{
		timed("find hooks", func(ctx context.Context) error {
			_, err := d.store.Hooks.Due(ctx)
			return err
		}),
		timed("claim and give back", func(ctx context.Context) error {
			_, claimed, err := d.store.Hooks.Claim(ctx, hook.ID, 1, true)
			if err != nil || len(claimed) != 1 {
				return errors.Join(err, errors.New("nothing to claim"))
			}
			return d.store.Hooks.GiveBack(ctx, claimed[0])
		}),
		timed("an event", func(ctx context.Context) error {
			_, err := d.store.Hooks.Test(ctx, "anna", hook.ID)
			return err
		}),
		timed("list", func(ctx context.Context) error {
			_, err := d.store.Hooks.Deliveries(ctx, "anna", hook.ID, 50)
			return err
		}),
	}
}

// fillExtractions has a thread's ended calls wait for a text model.
func fillExtractions(b *testing.B, d *sized) []operation {
	at := time.Now().Add(-time.Hour)
	must(b, d.store.Records.SaveCall(b.Context(), d.key, records.Call{
		ID: "c", StartedAt: at, EndedAt: &at, Extraction: records.ExtractionWaiting,
	}))
	d.copied(b, "calls", map[string]string{"id": "'c' || i"})
	claim := func(ctx context.Context) error {
		c, ok, err := d.store.Extractions.Claim(ctx, true)
		if err != nil || !ok {
			return errors.Join(err, errors.New("nothing to claim"))
		}
		return d.store.Extractions.GiveBack(ctx, c)
	}
	return []operation{
		timed("claim and give back", claim),
		{"claim while one is read", func(ctx context.Context) (time.Duration, error) {
			c, _, err := d.store.Extractions.Claim(ctx, true)
			began := time.Now()
			_, more, failed := d.store.Extractions.Claim(ctx, false)
			took := time.Since(began)
			if more {
				failed = errors.Join(failed, errors.New("two calls of an owner are read"))
			}
			return took, errors.Join(err, failed, d.store.Extractions.GiveBack(ctx, c))
		}},
	}
}

// fillLegs has sessions of ended calls wait to be hung up.
func fillLegs(b *testing.B, d *sized) []operation {
	at := time.Now().Add(-time.Hour)
	_, err := persistencetest.Apply(b.Context(), d.store, d.key, []persistence.Change{persistence.PutLeg{Leg: records.Leg{
		CallID: "c", Generation: 1, Upstream: "openai", UpstreamID: "u", StartedAt: at, EndedAt: &at,
	}}})
	must(b, err)
	d.copied(b, "upstream_legs", map[string]string{"call_id": "'c' || i"})
	return []operation{{"claim one", func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		legs, err := d.store.Records.LegsToHangUp(ctx, "openai", 1)
		took := time.Since(began)
		if err == nil && len(legs) != 1 {
			err = errors.New("no session to hang up")
		}
		persistencetest.Rows(b, d.url, "UPDATE upstream_legs SET attempts = 0, next_try_at = NULL WHERE attempts > 0")
		return took, err
	}}}
}

// fillProcesses has several stores serve one database: a message of the first, and its way to a follower of the last;
// and what each message costs when all write at the same time.
func fillProcesses(b *testing.B, d *sized) []operation {
	stores := []*persistence.Store{d.store}
	for range d.amount - 1 {
		stores = append(stores, persistencetest.Open(b, d.url, persistence.Options{}))
	}
	keys := make([]thread.Key, len(stores))
	for i, s := range stores {
		must(b, s.Serve(b.Context()))
		keys[i] = persistencetest.NewThread(b, d.store, "anna", "")
	}
	one := *d
	one.amount = 1
	const messages = 20
	return append(one.follow(b, stores[len(stores)-1]), operation{"a message, when all write", func(ctx context.Context) (time.Duration, error) {
		began, failed := time.Now(), make(chan error, len(stores))
		for i, s := range stores {
			go func() {
				var err error
				for range messages {
					_, e := persistencetest.AppendMessage(ctx, s, keys[i], said())
					err = errors.Join(err, e)
				}
				failed <- err
			}()
		}
		var err error
		for range stores {
			err = errors.Join(err, <-failed)
		}
		return time.Since(began) / messages, err
	}})
}
