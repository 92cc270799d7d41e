package bridge

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/bridge/internal/task"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

const (
	// commitTimeout limits what must be saved before something else can go on.
	commitTimeout = 10 * time.Second
	// lastTry is for what is still unsaved when the process ends.
	lastTry = 5 * time.Second
)

// Calls are the live calls of this process. It is safe for concurrent use.
type Calls struct {
	cfg    Config
	log    *slog.Logger
	admit  chan func()   // hands over work to Run, which joins it
	ending chan struct{} // closed when no more calls are admitted
	// answering makes the connections of browsers.
	answering answering
	// unsaved holds the ends that the database does not have yet; delayed is how many changes wait
	// for it.
	unsaved unsaved
	delayed atomic.Bool
	health  health

	mu   sync.Mutex
	live map[thread.Key]*call
	byID map[string]*call
}

// NewCalls returns an empty set of calls. Its error says what is wrong with the Config.
func NewCalls(cfg Config) (*Calls, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := &Calls{
		cfg: cfg, log: cfg.Logger, admit: make(chan func()), ending: make(chan struct{}),
		answering: answeringBy(cfg.Browser), live: make(map[thread.Key]*call), byID: make(map[string]*call),
	}
	c.unsaved.pending = cfg.Writer.Pending
	return c, nil
}

// Run runs the calls admitted by Start until ctx ends. Then it admits no more, ends the live ones with the reason
// shutdown, and returns when everything that was said in them is saved, or soon after: Config.Writer, which must run
// for longer, goes on saving. It must be called once.
func (c *Calls) Run(ctx context.Context) error {
	var running sync.WaitGroup
	if c.cfg.Store != nil {
		for _, route := range c.cfg.Upstreams {
			rest := hangUps{upstream: route.Upstream, rest: c.cfg.Store.Records, cfg: &c.cfg, log: c.log}
			running.Go(func() { rest.run(ctx) })
		}
		spent := budgets{usage: c.cfg.Store.Records, live: c.all, log: c.log}
		if c.cfg.OwnerDayUSD > 0 {
			running.Go(func() { spent.run(ctx) })
		}
	}
	for {
		select {
		case work := <-c.admit:
			running.Go(work)
			continue
		case <-ctx.Done():
		}
		break
	}
	close(c.ending)
	for _, live := range c.all() {
		live.stop(EndShutdown)
	}
	running.Wait()
	return nil
}

// runOne runs a call. While the database is unavailable the thread is released and the rest is
// saved later: a call that stayed open in the database would block the thread for good.
func (c *Calls) runOne(one *call, s *session.State) {
	reason, saved := one.run(s)
	if unusable[reason] {
		c.health.doubt(s.Record().Upstream)
	}
	if saved {
		history, last := s.EndOfThread()
		c.unsaved.keep(one.key, s.Record(), history, last)
	}
	c.release(one)
	c.awaitSaved(one.key)
	one.acks.close()
	one.observer.Ended(reason)
	c.cfg.OnEnd(one.key, reason)
}

// awaitSaved returns when what was said on a thread is saved, or a short time after Run is told to end.
func (c *Calls) awaitSaved(key thread.Key) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	saved := task.Go(func() { _ = c.cfg.Writer.Await(ctx, key) }) // the writer reports what is lost
	select {
	case <-saved:
	case <-c.ending:
		task.Await(saved, lastTry)
		cancel()
		<-saved
	}
}

// saveEnd saves the end of a call whose set-up failed.
func (c *Calls) saveEnd(key thread.Key, rec records.Call, legs ...persistence.Change) {
	c.cfg.Writer.PushLast(key, append(legs, persistence.PutCall{Call: rec})...)
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	if c.cfg.Writer.Await(ctx, key) == nil {
		c.unsaved.keepEnd(key, rec)
	}
}

// hungUp records that an upstream session was hung up after the end of its call was saved. If that fails, it is hung up
// again.
func (c *Calls) hungUp(callID string, generation int64) {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	if err := c.cfg.Store.Records.LegHungUp(ctx, callID, generation); err != nil {
		c.log.Warn("hang-up not recorded", "call_id", callID, "generation", generation, "error", err)
	}
}

// later has Run do work in the background. Once Run is ending, it is done here.
func (c *Calls) later(work func(ending <-chan struct{})) {
	select {
	case c.admit <- func() { work(c.ending) }:
	case <-c.ending:
		work(c.ending)
	}
}

// all returns the running calls.
func (c *Calls) all() []*call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.byID))
}

// Count returns how many calls are live, without those that Start is still setting up.
func (c *Calls) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byID)
}

// Live returns the id of the thread's call; ok is false if this process has none.
func (c *Calls) Live(owner, threadID string) (callID string, ok bool) {
	live := c.find(thread.Key{Owner: owner, Thread: threadID})
	if live == nil {
		return "", false
	}
	return live.id, true
}

// find returns the thread's call if it is running.
func (c *Calls) find(key thread.Key) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.live[key]
	if live == nil || c.byID[live.id] == nil {
		return nil
	}
	return live
}

// holder returns the call that holds the thread, even while it is being set up; nil if that is another one.
func (c *Calls) holder(key thread.Key, callID string) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.live[key]
	if live == nil || live.id != callID {
		return nil
	}
	return live
}

// ofOwner returns a call of the owner, nil if there is none.
func (c *Calls) ofOwner(owner, callID string) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.byID[callID]
	if live == nil || live.key.Owner != owner {
		return nil
	}
	return live
}

// Has reports whether the owner's call is one of this process.
func (c *Calls) Has(owner, callID string) bool { return c.ofOwner(owner, callID) != nil }

// EndAll ends all live calls, and returns when they have ended, or ctx has.
func (c *Calls) EndAll(ctx context.Context, reason EndReason) {
	live := c.all()
	for _, one := range live {
		one.stop(reason)
	}
	for _, one := range live {
		select {
		case <-one.done:
		case <-ctx.Done():
			return
		}
	}
}

// RefreshTools calls Config.Tools again for every live call. Call it when the server's tools have changed.
func (c *Calls) RefreshTools(ctx context.Context) {
	for _, live := range c.all() {
		tools, err := c.cfg.Tools(ctx, live.key.Owner, live.assistant)
		if err != nil {
			live.log.Warn("tools not listed again", "error", err)
			continue
		}
		live.post(session.NewTools{Entries: tools.Entries()})
	}
}

// release releases the thread.
func (c *Calls) release(old *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byID, old.id)
	if c.live[old.key] == old {
		delete(c.live, old.key)
	}
	close(old.done)
}

// itemPrefix returns a prefix for the ids of a call's own items.
func itemPrefix() string { return fmt.Sprintf("vb%08x", rand.Uint32()) }

// callIDs returns a function that makes the ids of a call's messages and records. Like those of persistence.NewID they
// are UUIDs of version 7, but a function of the time and of a number that differs for each of them.
func callIDs() func(now time.Time, n int) string {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // it never fails
	return func(now time.Time, n int) string {
		own := seed
		binary.BigEndian.PutUint64(own[24:], uint64(n)) //nolint:gosec // any number will do
		var id [16]byte
		_, _ = rand.NewChaCha8(own).Read(id[8:]) // it never fails
		binary.BigEndian.PutUint64(id[:8],
			uint64(now.UnixMilli())<<16|0x7000|uint64(n&0xfff)) //nolint:gosec // after 1970
		id[8] = id[8]&0x3f | 0x80
		return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	}
}

// Saved takes messages that are now in the database.
func (c *Calls) Saved(key thread.Key, messages []thread.Message) {
	if live := c.find(key); live != nil {
		for _, m := range messages {
			if m.Metadata.CallID == live.id { // else a text turn says it
				live.saved(m)
			}
		}
	}
}

// StorageDelayed takes the number of changes that wait for the database, and 0 once none do. All
// live calls tell their browsers.
func (c *Calls) StorageDelayed(pending int) {
	c.delayed.Store(pending > 0)
	tell := (*call).offer
	if pending == 0 {
		c.unsaved.saved()
		tell = (*call).post // nothing follows that would say it
	}
	for _, live := range c.all() {
		tell(live, session.StorageDelayed{Pending: pending})
	}
}
