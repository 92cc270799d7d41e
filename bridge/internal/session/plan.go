package session

import (
	"encoding/json"
	"time"

	"voicebridge/realtime"
)

// Times of a planned renewal.
const (
	// forceBefore is how long before its end a session is replaced whatever goes on.
	forceBefore = 2 * time.Minute
	// renewalPause is the least time between two planned renewals, for an upstream
	// whose sessions are hardly longer than the time before their end.
	renewalPause = 2 * time.Second
)

// plan reads when the upstream will end a session, and when it is to be replaced.
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

// schedule plans the renewal of the session that is heard.
func (s *State) schedule() {
	r := &s.renewal
	r.planAt, r.forceAt = time.Time{}, time.Time{}
	left := s.up.expires.Sub(s.now)
	if s.up.expires.IsZero() || s.RenewBefore <= 0 || left <= 0 {
		return
	}
	wait := left - s.RenewBefore
	if wait <= 0 {
		wait = left / 2 // short from the start: its second half is used
	}
	r.planAt = s.now.Add(max(wait, renewalPause))
	r.forceAt = s.now.Add(max(left-forceBefore, left*3/4))
}
