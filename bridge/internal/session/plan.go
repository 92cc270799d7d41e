package session

import (
	"encoding/json"
	"time"

	"voicebridge/realtime"
)

// Times of a planned renewal.
const (
	// forceBefore is how long before its end a session is replaced, whatever is going on.
	forceBefore = 2 * time.Minute
	// renewalPause is the minimum time between planned renewals, for an upstream with very short
	// sessions.
	renewalPause = 2 * time.Second
)

// plan takes from session.created when the upstream will end the session and, if it is the active one, plans its
// renewal.
func (s *State) plan(u *upstream, ev realtime.Event) {
	var session struct {
		ExpiresAt float64 `json:"expires_at"`
	}
	if json.Unmarshal(ev.Session, &session) != nil || session.ExpiresAt <= 0 || session.ExpiresAt > 1<<40 {
		return
	}
	u.expires = time.Unix(int64(session.ExpiresAt), 0).UTC()
	if u == s.up {
		s.schedule()
	}
}

// schedule plans the renewal of the active session.
func (s *State) schedule() {
	r := &s.renewal
	r.planAt, r.forceAt = time.Time{}, time.Time{}
	left := s.up.expires.Sub(s.now)
	if s.up.expires.IsZero() || s.RenewBefore <= 0 || left <= 0 {
		return
	}
	wait := left - s.RenewBefore
	if wait <= 0 {
		wait = left / 2 // a short session: use its second half
	}
	r.planAt = s.now.Add(max(wait, renewalPause))
	r.forceAt = s.now.Add(max(left-forceBefore, left*3/4))
}
