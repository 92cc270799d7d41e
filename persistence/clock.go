package persistence

import (
	"context"
	"sync/atomic"
	"time"
)

// clockError is by how much clocks may differ, besides the time that it takes to compare them.
const clockError = 100 * time.Millisecond

// clock is the database's clock, as far as this process knows it. Deadlines and rates are compared with it by all
// processes, whose machines' clocks may differ by minutes.
type clock struct {
	machine func() time.Time // [time.Now], except in tests
	ahead   atomic.Int64     // of the machine's clock, as a [time.Duration]
}

func (c *clock) now() time.Time { return c.stored(c.machine()).UTC() }

// stored converts a time of the machine's clock to the database's, and local converts it back.
func (c *clock) stored(t time.Time) time.Time { return c.shift(t, 1) }
func (c *clock) local(t time.Time) time.Time  { return c.shift(t, -1) }

func (c *clock) shift(t time.Time, sign time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(sign * time.Duration(c.ahead.Load()))
}

// compare reads the database's clock, and changes ahead only if that cannot be right.
func (c *clock) compare(ctx context.Context, read func(context.Context) (time.Time, error)) (changed bool, err error) {
	began := c.machine()
	at, err := read(ctx)
	if err != nil {
		return false, err
	}
	least, most := at.Sub(c.machine()), at.Sub(began)
	if ahead := time.Duration(c.ahead.Load()); ahead >= least-clockError && ahead <= most+clockError {
		return false, nil
	}
	c.ahead.Store(int64((least + most) / 2))
	return true, nil
}
