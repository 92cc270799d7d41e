package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/phone"
	"voicebridge/thread"
	"voicebridge/web/problem"
)

var (
	errNotDialled = problem.BadRequest("number_not_allowed", "to",
		"to must be a number such as +493012345678 that begins with one of phone.dial_prefixes.")
	errNoAccount = problem.BadRequest("number_not_allowed", "line",
		"This line has no account with its carrier in the settings: it is only called.")
	errDialing = problem.Conflict(string(bridge.CodeCallActive), "",
		"The thread has a live call, or the line calls this number already.")
	errKeyTaken = problem.Conflict("idempotency_conflict", "",
		"Another request has had this idempotency key within a day.")
	errLineFull = problem.TooMany("too_many_calls", "The line has as many calls as it may have.", time.Minute)
)

// dials serves the routes about calls out.
type dials struct{ *api }

func (h dials) routes(r router) {
	r.explain = orDial
	route(r, "POST /api/calls", h.create)
	route(r, "GET /api/calls/:call_id", h.read)
}

func orDial(err error) error {
	switch {
	case errors.Is(err, records.ErrDialing):
		return errDialing
	case errors.Is(err, records.ErrKeyTaken):
		return errKeyTaken
	}
	if errors.Is(err, persistence.ErrNotFound) {
		return errNoCall
	}
	return err
}

type newDial struct {
	Body struct {
		threadAssistant

		Line     string `json:"line"`
		To       string `json:"to"`
		ThreadID string `json:"thread_id"`
	} `body:"64 KiB"`
}

// dialAnswer is the answer to a request for a call.
type dialAnswer struct {
	CallID   string `json:"call_id"`
	ThreadID string `json:"thread_id"`
	State    string `json:"state" openapi:"enum: [queued]"`
}

// create saves a call that is to be made.
func (h dials) create(ctx context.Context, who caller, in newDial) (made reply[dialAnswer], err error) {
	b := &in.Body
	once, err := idempotencyKey(who.c, "")
	if err != nil {
		return made, err
	}
	text, err := thread.Encode([]any{b.Line, b.To, b.AssistantID.id, b.Variables, b.ThreadID})
	if err != nil {
		return made, err
	}
	sum := sha256.Sum256(text)
	d := records.Dial{
		ID: persistence.NewID(), Line: b.Line, Number: b.To, Variables: b.Variables, Once: once,
		Request: hex.EncodeToString(sum[:]),
	}
	if once != "" {
		before, err := h.Store.Records.DialOf(ctx, who.Owner, once, d.Request)
		if !errors.Is(err, persistence.ErrNotFound) {
			return dialReply(before), err
		}
	}
	line, err := h.dialLine(ctx, who, b.Line, b.To)
	if err != nil {
		return made, err
	}
	if !b.AssistantID.set {
		b.AssistantID.id = line.Assistant
	}
	if d.Assistant, err = h.checkChoice(ctx, who.Owner, b.threadAssistant); err != nil {
		return made, err
	}
	var fresh bool
	if d.Key, fresh, err = h.threadOfDial(ctx, line, b.To, b.ThreadID); err != nil {
		return made, err
	}
	saved, added, err := h.Store.Records.AddDial(ctx, d)
	if fresh && !added {
		err = errors.Join(err, h.removeUnused(context.WithoutCancel(ctx), d.Key))
	}
	if err == nil {
		h.events.note(who, "call out asked for", "call_id", saved.ID, "line", saved.Line)
	}
	return dialReply(saved), err
}

func dialReply(d records.Dial) reply[dialAnswer] {
	return accepted(dialAnswer{d.ID, d.Key.Thread, string(records.DialQueued)})
}

// dialLine returns the line of the caller by which a number may be called.
func (h dials) dialLine(ctx context.Context, who caller, name, number string) (*phone.Line, error) {
	line, ok := h.Phone.Lines[name]
	switch {
	case !ok || line.Owner != who.Owner:
		return nil, errNoLine
	case !h.Phone.Dials(number):
		return nil, errNotDialled
	case line.Account == "":
		return nil, errNoAccount
	}
	if err := h.limits.SetUp(ctx, who.c.RealIP()); err != nil {
		return nil, err
	}
	elsewhere, _, err := h.Store.Records.LineCalls(ctx, line.Owner, name, number)
	if err != nil {
		return nil, err
	}
	dialled, err := h.Store.Records.Dials(ctx, name)
	if err == nil && elsewhere+dialled+h.lines.count(name) >= line.MaxCalls {
		err = errLineFull
	}
	return &line, err
}

// threadOfDial returns the thread of a call out: that which is asked for, else as for a call that comes in.
func (h dials) threadOfDial(
	ctx context.Context, line *phone.Line, number, asked string,
) (key thread.Key, fresh bool, err error) {
	key = thread.Key{Owner: line.Owner, Thread: asked}
	if asked != "" {
		if key.Thread, err = clientSecrets(h).ownThread(ctx, line.Owner, asked); err != nil {
			return key, false, err
		}
		return key, false, h.isFree(ctx, key)
	}
	if days := h.Phone.ThreadDays; days > 0 {
		key.Thread, err = h.Store.Records.LastThreadOf(ctx, line.Owner, line.Name, number, h.now().Add(-days))
		if err == nil && h.isFree(ctx, key) == nil {
			return key, false, h.limits.Room(ctx, line.Owner)
		}
		if err != nil && !errors.Is(err, persistence.ErrNotFound) {
			return key, false, err
		}
	}
	if err := h.limits.Thread(ctx, line.Owner); err != nil {
		return key, false, err
	}
	t, err := h.Store.CreateThread(ctx, line.Owner, "")
	key.Thread = t.ID
	return key, true, err
}

// isFree returns an error if a thread has a live call.
func (h dials) isFree(ctx context.Context, key thread.Key) error {
	_, err := h.Store.Records.LiveCall(ctx, key)
	switch {
	case err == nil:
		return errDialing
	case errors.Is(err, persistence.ErrNotFound):
		return nil
	}
	return err
}

// callState is how far a call has come.
type callState struct {
	CallID    string `json:"call_id"`
	ThreadID  string `json:"thread_id"`
	Direction string `json:"direction" openapi:"enum: ['', inbound, outbound]"` // empty if it is none by telephone
	Line      string `json:"line"`
	// The number of who is not the assistant.
	Number string `json:"number"`
	State  string `json:"state" openapi:"enum: [queued, ringing, answered, ended]"`
	// Why it has ended: as of calls, or busy, no_answer, failed, machine.
	EndReason *string    `json:"end_reason"`
	CreatedAt time.Time  `json:"created_at"`
	EndedAt   *time.Time `json:"ended_at"`
}

// read tells how far a call has come.
func (h dials) read(ctx context.Context, who caller, in struct {
	ID string `path:"call_id"`
}) (s callState, err error) {
	d, err := h.Store.Records.Dial(ctx, who.Owner, in.ID)
	missing := errors.Is(err, persistence.ErrNotFound)
	if err != nil && !missing {
		return s, err
	}
	s = callState{
		d.ID, d.Key.Thread, records.Outbound, d.Line, d.Number, string(d.State), &d.EndReason, d.CreatedAt, d.EndedAt,
	}
	call, err := h.Store.Records.Call(ctx, who.Owner, in.ID)
	if err != nil && (missing || !errors.Is(err, persistence.ErrNotFound)) {
		return s, err
	}
	if missing {
		s = callState{
			CallID: call.ID, ThreadID: call.ThreadID, Direction: call.Direction, Line: call.Line, Number: call.Caller,
			CreatedAt: call.StartedAt,
		}
	}
	if err == nil {
		s.State, s.EndReason, s.EndedAt = string(records.DialAnswered), &call.EndReason, call.EndedAt
		if call.EndedAt != nil {
			s.State = string(records.DialEnded)
		}
	}
	if s.State != string(records.DialEnded) {
		s.EndReason = nil
	}
	return s, nil
}
