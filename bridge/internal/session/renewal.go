package session

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// Times and limits of a renewal.
const (
	// firstRetry and lastRetry bound the wait before a retry.
	firstRetry, lastRetry = 250 * time.Millisecond, 4 * time.Second
	// plannedRetry is the wait after a failed planned renewal.
	plannedRetry = 30 * time.Second
	// maxAsked is the longest wait that an upstream may ask for before a planned renewal is tried again.
	maxAsked = 2 * time.Minute
	// giveUpAfter is how long to try to replace a lost session.
	giveUpAfter = 30 * time.Second
	// maxLosses is how many losses within lossWindow a call survives. The end of a session by its time limit is none,
	// unless it came within renewalPause.
	maxLosses  = 6
	lossWindow = 10 * time.Minute
	// heldSpeech is how much of what the caller says without a session is kept for the next one.
	heldSpeech = 5 * time.Second
	// forceBefore is how long before its end a session is replaced, whatever is going on.
	forceBefore = 2 * time.Minute
	// renewalPause is the minimum time between planned renewals, for an upstream with very short
	// sessions.
	renewalPause = 2 * time.Second
)

// renewal is the replacement of the upstream session of a call that goes on. The new session is
// prepared first; then, at a silence, it replaces the old one.
type renewal struct {
	*line
	transcript *transcript
	tools      *tools
	settings   *settings

	attempt
	// next is the session that will replace the active one; nil if there is none.
	next   *upstream
	gen    int // the newest generation
	losses []time.Time
	// planAt is when to renew, forceAt when the renewal may interrupt.
	planAt, forceAt time.Time
	// releasing is set while a new session is sent what the caller had said before it was there. heldSince is since
	// when what the caller says has been held, for this one or the next.
	releasing bool
	heldSince time.Time
}

// attempt is what is known about the renewal in progress.
type attempt struct {
	reason EndReason // EndNone: none is in progress
	// lostAt is when the old session was lost; zero while it is still active.
	lostAt  time.Time
	retryAt time.Time
	tries   int
	refused string // the upstream that has refused to go on, if there are others
	// replayed are the messages that the next session knows from its history; open are the tool
	// calls that had no result then.
	replayed map[string]bool
	open     []*toolRun
}

func (r *renewal) deadline() time.Time {
	switch {
	case r.phase != live:
		return time.Time{}
	case r.next != nil && r.next.stage == ready:
		return r.forceAt
	case r.next != nil:
		return r.next.by
	case !r.retryAt.IsZero() && !r.due(r.retryAt):
		return r.retryAt
	case r.due(r.planAt):
		return r.forceAt // or sooner, when an input leaves the call quiet
	default:
		return r.planAt
	}
}

// session finds the upstream session of that generation; nil if it is neither active nor being prepared.
func (r *renewal) session(gen int) *upstream {
	for _, u := range []*upstream{r.up, r.next} {
		if u != nil && u.gen == gen {
			return u
		}
	}
	return nil
}

// opened takes session.created, and reports whether the session is to be configured: first the thread's last messages,
// then one session.update. The channel keeps them in order, so there is no need to wait.
func (r *renewal) opened(u *upstream, ev *event) bool {
	if u.announced {
		return false
	}
	u.announced = true
	var session struct {
		ExpiresAt float64 `json:"expires_at"`
	}
	if json.Unmarshal(ev.Session, &session) == nil && session.ExpiresAt > 0 && session.ExpiresAt <= 1<<40 {
		u.expires = time.Unix(int64(session.ExpiresAt), 0).UTC()
		if u == r.up {
			r.schedule()
		}
	}
	if u.can.Duplex {
		r.save(persistence.PutResponse{Response: u.sessionRecord(nil)})
	}
	if u.stage != dialing {
		return false
	}
	u.stage = configuring
	r.do(Replay{Gen: u.gen})
	return true
}

// schedule plans the renewal of the active session.
func (r *renewal) schedule() {
	r.planAt, r.forceAt = time.Time{}, time.Time{}
	left := r.up.expires.Sub(r.now)
	if r.up.expires.IsZero() || r.RenewBefore <= 0 || left <= 0 {
		return
	}
	wait := left - r.RenewBefore
	if wait <= 0 {
		wait = left / 2 // a short session: use its second half
	}
	r.planAt = r.now.Add(max(wait, renewalPause))
	r.forceAt = r.now.Add(max(left-forceBefore, left*3/4))
}

// hasten plans the renewal of the active session for the next silence.
func (r *renewal) hasten() { r.planAt, r.forceAt = r.now, r.now.Add(forceBefore) }

// begin begins a renewal.
func (r *renewal) begin(reason EndReason) {
	r.reason = reason
	r.notifyRenewing()
	r.dial()
}

func (r *renewal) notifyRenewing() { r.notify(r.renewingEvent()) }

func (r *renewal) renewingEvent() renewingEvent {
	return renewingEvent{Type: "bridge.upstream.renewing", Reason: r.reason}
}

// dial makes the next upstream session.
func (r *renewal) dial() {
	r.gen = max(r.gen, r.up.gen) + 1
	r.next = r.newUpstream(r.gen)
	r.transcript.saveChanged()
	history := r.transcript.memory.settled()
	r.replayed = make(map[string]bool)
	for _, m := range history {
		r.replayed[m.ID] = true
	}
	r.open = r.tools.unfinished()
	r.do(Dial{Gen: r.gen, History: history, Refused: r.refused, Whole: r.settings.whole()})
}

// dialed takes the success of a dial.
func (r *renewal) dialed(in UpstreamDialed) {
	if r.next != nil && in.Gen == r.next.gen { // otherwise it is no longer wanted, and was hung up
		r.next.take(in)
	}
}

// dialFailed takes the failure of a dial. Like the methods below, it returns why the call must be given up, EndNone if
// it need not.
func (r *renewal) dialFailed(in UpstreamDialFailed) EndReason {
	if r.next == nil || in.Gen != r.next.gen {
		return EndNone
	}
	r.log(slog.LevelWarn, "next upstream session not created", "error", in.Err, "fatal", in.Fatal)
	if in.Fatal && r.up.gone {
		return EndUpstreamRefused
	}
	return r.failed("dial failed", in.RetryAfter)
}

// event takes an event of the session that is being prepared. The browser sees nothing of it.
func (r *renewal) event(ev *event) EndReason {
	u := r.next
	switch ev.Type {
	case realtime.TypeSessionCreated:
		if r.opened(u, ev) {
			r.settings.configureNext(u)
		}
	case realtime.TypeSessionUpdated:
		u.updated = *ev
		if u.stage == configuring {
			u.stage = ready // renewOnTime follows
		}
	case realtime.TypeItemAdded, realtime.TypeItemCreatedBeta:
		if u.isSeed(ev.item.ID) {
			u.replayed = ev.item.ID
			r.transcript.items[ev.item.ID] = &item{id: ev.item.ID, gen: u.gen, seeded: true, raw: ev.item}
		}
	case realtime.TypeError:
		if ev.Error != nil {
			return r.error(ev.Error)
		}
	}
	return EndNone
}

func (r *renewal) error(e *realtime.Error) EndReason {
	fatal := e.Fatal()
	if fatal && r.Others > 0 {
		r.refused = r.next.route.Name
	} else if fatal && r.up.gone {
		r.sendError(*e)
		return EndUpstreamRefused
	}
	if fatal || e.Code == codeSessionExpired || e.EventID == r.next.updateID ||
		e.EventID == "" && strings.HasPrefix(e.Param, "session") {
		r.log(slog.LevelWarn, "next session refused by the upstream", "code", e.Code, "param", e.Param,
			"error", e.Message)
		return r.failed(e.Code, 0)
	}
	r.log(slog.LevelWarn, "replayed item refused by the upstream", "code", e.Code, "param", e.Param, "error", e.Message)
	return EndNone
}

// failed takes the failure of an attempt; asked is how long the upstream asks to wait.
func (r *renewal) failed(why string, asked time.Duration) EndReason {
	r.drop()
	r.do(Count{What: CountRenewalFailed})
	r.tries++
	r.log(slog.LevelWarn, "renewal failed", "reason", r.reason, "try", r.tries, "why", why)
	if r.up.gone && r.now.Sub(r.lostAt) >= giveUpAfter {
		return r.reason
	}
	r.retryLater(asked)
	return EndNone
}

// retryLater plans the next attempt. A call without an upstream does not wait longer than until it
// would give up.
func (r *renewal) retryLater(asked time.Duration) {
	wait, most := plannedRetry, maxAsked
	if r.up.gone {
		wait, most = min(firstRetry<<min(r.tries, 8), lastRetry), r.lostAt.Add(giveUpAfter).Sub(r.now)
	}
	r.retryAt = r.now.Add(max(wait, min(asked, most)))
}

// drop gives up the session that is being prepared.
func (r *renewal) drop() {
	if r.next == nil {
		return
	}
	r.next.gone = true
	r.do(HangUp{Gen: r.next.gen, Reason: EndUpstreamSetup})
	r.next = nil
}

// tooManyLosses takes a loss of the active session, and reports whether the call gives up.
func (r *renewal) tooManyLosses(reason EndReason) bool {
	for len(r.losses) > 0 && r.now.Sub(r.losses[0]) > lossWindow {
		r.losses = r.losses[1:]
	}
	if reason != EndSessionExpired || r.now.Sub(r.up.began) < renewalPause {
		r.losses = append(r.losses, r.now)
	}
	return len(r.losses) > maxLosses
}

// replace begins to replace the active session, which is lost.
func (r *renewal) replace(reason EndReason) {
	r.lostAt = r.now
	if r.heldSince.IsZero() {
		r.heldSince = r.now
	}
	r.do(HangUp{Gen: r.up.gen, Reason: reason, Hold: true})
	switch {
	case r.next != nil:
		r.reason = reason // it takes over as soon as it can
		r.notifyRenewing()
	case len(r.losses) > 1:
		r.reason, r.tries = reason, len(r.losses)-1
		r.notifyRenewing()
		r.retryLater(0)
	default:
		r.tries = 0
		r.begin(reason)
	}
}

// catchUp sends the new session what was said after its history was read.
func (r *renewal) catchUp() {
	sent := func(m thread.Message) bool { return r.replayed[m.ID] }
	if missing := slices.DeleteFunc(r.transcript.memory.last(), sent); len(missing) > 0 {
		r.do(Append{Gen: r.up.gen, Messages: missing})
	}
	for _, run := range r.open {
		if !run.Done() {
			continue
		}
		r.tools.showImages(run) // unless the old session has been shown them
		if r.replayed[run.message.id] {
			r.tools.sendOutput(run, r.nextItemID())
		}
	}
	r.transcript.dropClosed()
}
