package session

import (
	"slices"
	"time"

	"voicebridge/realtime"
)

// told is what one client knows of the call, and what it may still ask for. Its events are read as those of somebody
// who knows no more.
type told struct {
	side     int  // 0 is the browser, others are sidebands
	welcomed bool // it has its session: events may follow

	// Sent is written with each event of the client, and read by what takes it.
	realtime.Sent
	// heard is when the newest response was made of which the caller has heard something: as the upstream reports,
	// which playback writes and reads.
	heard time.Time
	// The view writes what stands in the conversation, texts read it.
	shown
	// typed is the client's latest text. A response.create asks for an answer to it, until the upstream has
	// acknowledged it: a response that began before does not count. Texts write it, responses read and clear it.
	typed string
	// mayAsk means that the client has answered a tool call: its next response.create asks for what the bridge does by
	// itself. It may come even after the answer, which was there at repliedAt. Tools write both, a new question clears
	// mayAsk, and responses read them.
	mayAsk    bool
	repliedAt time.Time
}

// shown is what a client was told of the order of items. Whoever comes back was told nothing.
type shown struct {
	before   map[string]string // by the item, the one before it
	followed map[string]bool   // those before any
	last     string
	// made is the last item that the client has created.
	made string
	// prior was the last one until since: what the client sends may have been sent before it knew.
	prior string
	since time.Time
}

// root names what is before the first item.
const root = "root"

// inFlight is how long what a client sends may have been on its way.
const inFlight = 2 * time.Second

// sees takes that the client is told of an item and of the one before it.
func (s *shown) sees(id, before string, now time.Time) {
	if s.before == nil {
		s.before, s.followed = make(map[string]string), make(map[string]bool)
	}
	if _, again := s.before[id]; again {
		return
	}
	if s.before[id] = before; !s.followed[before] { // otherwise it stands between two
		s.prior, s.since = s.last, now
		s.last = id
	}
	s.followed[before] = true
}

// forgets takes that the client knows that an item is gone.
func (s *shown) forgets(id string) {
	if s.last == id {
		s.last = s.before[id]
		delete(s.followed, s.last)
	}
	delete(s.before, id)
}

// isEnd reports whether what follows that item, for the client, is at the end of the conversation.
func (s *shown) isEnd(before string, now time.Time) bool {
	fresh := now.Before(s.since.Add(inFlight))
	switch before {
	case "", s.last, s.made:
		return true
	case root:
		return s.last+s.made == "" || s.prior == "" && fresh
	}
	return before == s.prior && fresh
}

// isLate reports whether the client's response.create comes so long after the answer to its tool call that it must ask
// for another one. It may wait for the end of a response before it asks, and hears of that once it has heard the sound.
// before reports whether a response began before repliedAt.
func (t *told) isLate(now time.Time, before func(id string) bool) bool {
	last := t.repliedAt
	if before(t.Done) && t.At.After(last) {
		last = t.At
	}
	return !last.IsZero() && !slices.ContainsFunc(t.Pending, before) && now.After(last.Add(clientCreateWait))
}
