package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// traffic is a set of calls that are up and whose ends both send.
type traffic struct {
	rig      *rig
	browsers []*browser
	calls    []*upstreamCall // the upstream's ends, in another order
	setUp    time.Duration   // of all calls
	// alive ends, with its cause, when a call does, when the rig does, and by end.
	alive context.Context
	end   func(cause error)

	stopSending context.CancelFunc
	sent        chan struct{} // closed when nothing more is sent

	batches *batches // of the call whose model uses tools; may be nil
}

// startTraffic makes n calls and makes both ends of each send. stop must be called.
func (r *rig) startTraffic(n int) (*traffic, error) {
	began := time.Now()
	browsers, err := r.dialAll(r.alive, n)
	if err != nil {
		return nil, err
	}
	t := &traffic{rig: r, browsers: browsers, calls: r.up.live(), setUp: time.Since(began), sent: make(chan struct{})}
	if len(t.calls) != n {
		err := fmt.Errorf("the upstream has %d calls, the browsers %d", len(t.calls), n)
		return nil, errors.Join(err, hangUpAll(r.alive, browsers))
	}
	senders := make([]*sender, 0, 2*n)
	for i, b := range browsers {
		senders = append(senders, b.sender, t.calls[i].sender)
	}
	t.alive, t.end = r.watchCalls(browsers)
	var sending context.Context
	sending, t.stopSending = context.WithCancel(t.alive)
	go func() {
		defer close(t.sent)
		sendAll(sending, r.m, senders)
	}()
	return t, nil
}

// stop ends the calls and joins everything.
func (t *traffic) stop() error {
	t.stopSending()
	<-t.sent
	t.end(nil)
	return hangUpAll(t.rig.alive, t.browsers)
}

// flow makes n calls, makes both ends send, and measures.
func (r *rig) flow(c Config, n int) (f flow, err error) {
	t, err := r.startTraffic(n)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	return t.measure(t.alive, c)
}

// flow is the result of one half of a round.
type flow struct {
	paths     Paths
	generator Generator
	seconds   float64 // between the two readings
	used      *usage  // by the bridge and its children in that time, and its memory at the end
	others    *float64
	setUp     time.Duration // of all calls
	forwarded float64       // packets/s that arrived, both ways
	tools     float64       // tool calls/s that were answered
	words     Path          // events of words
}

// measure counts packets for the duration, after the warm-up. ctx must end when one of the calls
// ends.
func (t *traffic) measure(ctx context.Context, c Config) (f flow, err error) {
	f.setUp = t.setUp
	if err := wait(ctx, time.Now().Add(c.WarmUp)); err != nil {
		return f, err
	}
	before := t.read()
	w := t.rig.m.open(c.Duration)
	if err := wait(ctx, w.ends); err != nil {
		return f, err
	}
	f.account(before, t.read())
	if err := wait(ctx, w.ends.Add(grace)); err != nil {
		return f, err
	}
	f.paths = t.rig.m.paths(w)
	f.forwarded = float64(w.ways[upward].latency.count()+w.ways[downward].latency.count()) / c.Duration.Seconds()
	f.words = w.words.path(0)
	f.generator.LateP99 = micro(w.late.quantile(0.99))
	return f, nil
}

// reading is what processes have used, and tools have answered, so far.
type reading struct {
	at                   time.Time
	bridge, own          usage
	machine              time.Duration
	noBridge, noOwn, bad error
	answered             uint64
}

func (t *traffic) read() reading {
	out := reading{noBridge: errNoUsage}
	if b := t.rig.bridge; b != nil {
		out.bridge, out.noBridge = readUsage(b.pid)
	}
	out.own, out.noOwn = readUsage(os.Getpid())
	out.machine, out.bad = busyTime()
	if t.batches != nil {
		out.answered = t.batches.answered.Load()
	}
	out.at = time.Now()
	return out
}

// account subtracts two readings.
func (f *flow) account(before, after reading) {
	f.seconds = after.at.Sub(before.at).Seconds()
	if f.seconds > 0 {
		f.tools = float64(after.answered-before.answered) / f.seconds
	}
	if before.noBridge == nil && after.noBridge == nil {
		f.used = &usage{
			cpu: after.bridge.cpu - before.bridge.cpu, children: after.bridge.children - before.bridge.children,
			rss: after.bridge.rss,
		}
	}
	if before.noOwn != nil || after.noOwn != nil {
		return
	}
	own := after.own.cpu - before.own.cpu
	f.generator.CPU = new(percent(own, f.seconds))
	if before.bad != nil || after.bad != nil {
		return
	}
	others := after.machine - before.machine - own
	if f.used != nil {
		others -= f.used.cpu + f.used.children
	}
	f.others = new(percent(max(others, 0), f.seconds))
}

func newProcess(calls int, f flow, idle usage) *Process {
	p := &Process{
		CPU: percent(f.used.cpu, f.seconds), IdleRSS: idle.rss, RSS: f.used.rss,
		RSSPerCall: round(float64(f.used.rss-idle.rss)/float64(calls), 1),
	}
	p.CPUPerCall = round(p.CPU/float64(calls), 3)
	if f.forwarded > 0 {
		p.CPUPerPacket = round(f.used.cpu.Seconds()*1e6/f.seconds/f.forwarded, 2)
	}
	return p
}
