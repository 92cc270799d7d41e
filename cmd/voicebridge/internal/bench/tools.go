package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// batchTimeout is how long the last batch may take: longer than any tool.
const batchTimeout = 60 * time.Second

// measureTools is one round: n calls through the bridge, first without tools, then with tools
// running all the time in one of them. In both halves it also measures a call through another
// bridge, which runs no tools and waits for a processor as often as the first bridge does.
func measureTools(ctx context.Context, c Config, n int) (row Tools, err error) {
	tools, err := openRig(ctx, &c.Bridge, n, 0)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, tools.close()) }()
	other, err := openRig(ctx, &c.Bridge, 1, 0)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, other.close()) }()
	beside, err := other.startTraffic(1)
	if err != nil {
		return row, other.explain(err)
	}
	defer func() { err = errors.Join(err, beside.stop()) }()
	t, err := tools.startTraffic(n)
	if err != nil {
		return row, tools.explain(err)
	}
	defer func() { err = errors.Join(err, t.stop()) }()

	row = Tools{Calls: n, AtOnce: c.Tools}
	if row.Without, err = t.half(c, beside); err == nil {
		err = t.startTools(c.Tools)
	}
	if err == nil {
		row.With, err = t.half(c, beside)
	}
	if err == nil {
		err = t.stopTools(batchTimeout)
	}
	if err != nil {
		return row, tools.explain(err)
	}
	row.count(t.batches)
	row.compare()
	return row, nil
}

// half measures the calls, and at the same time the one beside them.
func (t *traffic) half(c Config, beside *traffic) (h Half, err error) {
	ctx, end := context.WithCancelCause(t.alive)
	defer end(nil)
	stop := context.AfterFunc(beside.alive, func() {
		end(fmt.Errorf("beside it: %w", context.Cause(beside.alive)))
	})
	defer stop()
	var through, past flow
	var errThrough, errPast error
	var wg sync.WaitGroup
	wg.Go(func() { through, errThrough = t.measure(ctx, c) })
	wg.Go(func() { past, errPast = beside.measure(ctx, c) })
	wg.Wait()
	if errThrough != nil || errPast != nil {
		return h, context.Cause(ctx) // what ended both
	}
	h = Half{
		Calls: through.paths, Beside: past.paths, Generator: through.generator, OthersCPU: through.others,
		PerSecond: round(through.tools, 1),
	}
	if through.used != nil {
		h.BridgeCPU = new(percent(through.used.cpu, through.seconds))
		h.ToolsCPU = new(percent(through.used.children, through.seconds))
	}
	return h, nil
}

// startTools lets the model of one call use tools from now on, atOnce at a time. A broken rule ends the
// calls.
func (t *traffic) startTools(atOnce int) error {
	call := t.calls[0]
	var b *batches
	err := call.order(t.alive, func() {
		uses := offered(call.session.Settings())
		if len(uses) == 0 {
			return
		}
		b = newBatches(call.session, uses, atOnce, t.end)
		call.batches = b
		b.next()
	})
	if err != nil {
		return err
	}
	if b == nil {
		return errNoTools
	}
	t.batches = b
	return nil
}

// stopTools waits until the running batch is answered, for at most timeout, and then a while longer
// for anything superfluous.
func (t *traffic) stopTools(timeout time.Duration) error {
	call, b := t.calls[0], t.batches
	if err := call.order(t.alive, func() { b.last = true }); err != nil {
		return err
	}
	select {
	case <-b.finished:
		return wait(t.alive, time.Now().Add(grace))
	case <-t.alive.Done():
		return context.Cause(t.alive)
	case <-time.After(timeout):
	}
	var overdue error
	err := call.order(t.alive, func() { overdue = b.overdue() })
	return errors.Join(err, fmt.Errorf("after %s: %w", timeout, overdue))
}
