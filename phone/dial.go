package phone

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// The values of Settings.Machine, for calls out that a machine answers.
const (
	HangUpMachine  = "hangup"
	SpeakToMachine = "message"
	IgnoreMachine  = "off"
)

const (
	// ringTime is how long a number is called, quietTime how long the carrier may say nothing of a call that nobody has
	// answered, or of one whose stream does not begin.
	ringTime, quietTime = time.Minute, 3 * time.Minute
	// clockSkew is how much the clock of a carrier may be behind.
	clockSkew = 5 * time.Second
	// maxDials is how often a carrier is asked that has not taken a call, after a pause each time.
	maxDials  = 5
	dialPause = 2 * time.Second
	// dialling limits the calls out that a process looks after at a time, lookEvery is how often it looks for more.
	dialling  = 8
	lookEvery = time.Second
)

// Dial is a call out as a carrier is asked for it.
type Dial struct {
	// ID is ours, To the number, Machine what Settings.Machine has, Webhook the address of the line's webhook.
	ID, To, Machine, Webhook string
	// AskedAt is when the carrier was asked first.
	AskedAt time.Time
}

// rings returns how many seconds the number is called.
func (d Dial) rings() string { return strconv.Itoa(int(ringTime / time.Second)) }

// dials keeps the calls out; *records.Store implements it.
type dials interface {
	Dialled() <-chan struct{}
	ClaimDials(ctx context.Context, limit int) ([]records.Dial, error)
	ChangeDial(
		ctx context.Context, key thread.Key, id string, change func(d *records.Dial, now time.Time) bool,
	) (records.Dial, error)
	Call(ctx context.Context, owner, id string) (records.Call, error)
}

// Dialer has carriers make the calls out that are saved, beside those of other processes.
type Dialer struct {
	Settings

	Store     dials
	PublicURL string
	Log       *slog.Logger
}

// Run dials until ctx ends, and waits for what it has begun.
func (d *Dialer) Run(ctx context.Context) error {
	if len(d.DialPrefixes) == 0 {
		return nil
	}
	var work sync.WaitGroup
	defer work.Wait()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	slots := make(chan struct{}, dialling)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.Store.Dialled():
		case <-look.C:
		}
		claimed, err := d.Store.ClaimDials(ctx, dialling-len(slots))
		if err != nil && ctx.Err() == nil {
			d.Log.Warn("calls out not looked for", "error", err)
		}
		for _, c := range claimed {
			slots <- struct{}{}
			work.Go(func() {
				defer func() { <-slots }()
				d.look(context.WithoutCancel(ctx), c, time.Now())
			})
		}
	}
}

// look looks after a call out that was claimed at a time.
func (d *Dialer) look(ctx context.Context, c records.Dial, claimed time.Time) {
	log := d.Log.With("call_id", c.ID, "thread_id", c.Key.Thread, "line", c.Line)
	ctx, cancel := context.WithDeadline(ctx, claimed.Add(askTimeout))
	defer cancel()
	line, ok := d.Lines[c.Line]
	if !ok {
		d.end(ctx, c, records.DialFailed, log)
		return
	}
	carrier := Carriers[line.Carrier]
	asked := Dial{ID: c.ID, To: c.Number, Machine: d.Machine, Webhook: d.PublicURL + "/phone/" + line.Carrier + "/" + c.Line}
	switch {
	case c.State == records.DialAnswered && d.talks(ctx, c):
		d.change(ctx, c, log, func(c *records.Dial, _ time.Time) bool {
			c.NextAt = nil
			return true
		})
	case c.CarrierCall != "":
		log.Warn("carrier says nothing of a call out")
		if err := carrier.HangUp(ctx, &line, c.CarrierCall); err != nil {
			log.Warn("call out not hung up", "error", err)
			return // once more
		}
		reason := records.DialNoAnswer
		if c.State == records.DialAnswered {
			reason = records.DialFailed
		}
		d.end(ctx, c, reason, log)
	case c.AskedAt == nil:
		d.dial(ctx, c, &line, asked, log)
	default:
		asked.AskedAt = *c.AskedAt
		d.find(ctx, c, &line, asked, log)
	}
}

// talks reports whether a call that was answered is, or was, one with the assistant.
func (d *Dialer) talks(ctx context.Context, c records.Dial) bool {
	_, err := d.Store.Call(ctx, c.Key.Owner, c.ID)
	return !errors.Is(err, persistence.ErrNotFound)
}

// dial asks the carrier for a call.
func (d *Dialer) dial(ctx context.Context, c records.Dial, line *Line, asked Dial, log *slog.Logger) {
	call, err := Carriers[line.Carrier].Dial(ctx, line, asked)
	switch {
	case err == nil:
		d.taken(ctx, c, call, log)
	case errors.Is(err, errAgain) && c.Attempts+1 < maxDials:
		log.Warn("carrier has not taken a call", "error", err)
		d.again(ctx, c, log)
	case errors.Is(err, errRefused), errors.Is(err, errAgain):
		log.Warn("carrier refuses a call", "error", err)
		d.end(ctx, c, records.DialFailed, log)
	default: // it may have taken it: find looks
		log.Warn("carrier has not said whether it has taken a call", "error", err)
	}
}

// find looks for a call that the carrier may have taken. It is dialled once more only if the carrier surely has not.
func (d *Dialer) find(ctx context.Context, c records.Dial, line *Line, asked Dial, log *slog.Logger) {
	call, sure, err := Carriers[line.Carrier].Find(ctx, line, asked)
	switch {
	case err != nil:
		log.Warn("call out not looked for", "error", err)
	case call != "":
		d.taken(ctx, c, call, log)
	case sure:
		d.again(ctx, c, log)
	default:
		d.change(ctx, c, log, func(c *records.Dial, now time.Time) bool {
			return c.CarrierCall == "" && now.Sub(asked.AskedAt) > ringTime+records.DialClaim && End(c, records.DialFailed)
		})
	}
}

// taken saves the carrier's id of a call, from whom the next word is to come.
func (d *Dialer) taken(ctx context.Context, c records.Dial, call string, log *slog.Logger) {
	d.change(ctx, c, log, func(c *records.Dial, now time.Time) bool {
		if c.CarrierCall != "" { // its webhook was earlier
			return false
		}
		c.CarrierCall, c.NextAt = call, new(now.Add(quietTime))
		return true
	})
}

// again has a call be dialled in a while, unless the carrier has said meanwhile that it has it.
func (d *Dialer) again(ctx context.Context, c records.Dial, log *slog.Logger) {
	d.change(ctx, c, log, func(c *records.Dial, now time.Time) bool {
		if c.CarrierCall != "" || c.State != records.DialQueued {
			return false
		}
		c.AskedAt, c.NextAt = nil, new(now.Add(dialPause))
		return true
	})
}

func (d *Dialer) end(ctx context.Context, c records.Dial, reason string, log *slog.Logger) {
	d.change(ctx, c, log, func(c *records.Dial, _ time.Time) bool { return End(c, reason) })
}

// End ends a call out that has not ended, and of which nobody else will tell the end.
func End(c *records.Dial, reason string) bool {
	if c.State == records.DialEnded || c.State == records.DialAnswered && c.NextAt == nil {
		return false
	}
	c.State, c.EndReason = records.DialEnded, reason
	return true
}

// change saves a change; if it fails, the next look makes up for it.
func (d *Dialer) change(
	ctx context.Context, c records.Dial, log *slog.Logger, change func(c *records.Dial, now time.Time) bool,
) {
	_, err := d.Store.ChangeDial(context.WithoutCancel(ctx), c.Key, c.ID, change)
	if err != nil && !errors.Is(err, persistence.ErrNotFound) {
		log.Warn("call out not saved", "error", err)
	}
}

// Follow takes a notice of a carrier about a call out. It returns false if the call is another one: a call out has one.
func Follow(c *records.Dial, n Notice, now time.Time) (same, changed bool) {
	if c.CarrierCall != "" && c.CarrierCall != n.Call && c.CarrierCall != n.Asked {
		return false, false
	}
	before := *c
	c.CarrierCall = n.Call
	switch {
	case n.Ended:
		return true, End(c, n.Reason)
	case c.State == records.DialEnded:
		return true, false
	case n.Answered && c.State != records.DialAnswered:
		c.State, c.NextAt = records.DialAnswered, new(now.Add(quietTime))
	case c.State == records.DialQueued:
		c.NextAt = new(now.Add(quietTime))
		if n.Rings {
			c.State = records.DialRinging
		}
	}
	return true, c.State != before.State || c.CarrierCall != before.CarrierCall
}
