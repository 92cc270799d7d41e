package bridge

import (
	"context"
	"fmt"
	"sync"

	"voicebridge/bridge/internal/leg"
	"voicebridge/bridge/internal/session"
	"voicebridge/realtime/media"
	"voicebridge/realtime/wsserver"
)

// MaxSidebands is how many sidebands a call has at a time.
const MaxSidebands = 4

var errTooManySidebands = &Error{
	Code: CodeTooManySidebands, Param: "call_id",
	Message: fmt.Sprintf("The call has %d sidebands. Close one first.", MaxSidebands),
}

// aside is a sideband that wants to join a call, and where it learns whether it has.
type aside struct {
	leg  *leg.Browser
	conn *wsserver.Conn
	// server is that of Start.
	server bool
	err    chan error // has room for one
}

// asides are the sidebands of a call. Only the call's loop uses them, but for push. The zero value has none.
type asides struct {
	all     map[int]*leg.Browser // by their ids
	last    int                  // the last id
	leaving sync.WaitGroup

	mu        sync.Mutex
	following map[int]*leg.Browser // those that have got their session
}

// take makes a connection a sideband, which runs until ctx ends, if there is room for it.
func (s *asides) take(ctx context.Context, a *aside, post leg.Post) (id int, ok bool) {
	if len(s.all) >= MaxSidebands {
		a.err <- errTooManySidebands
		return 0, false
	}
	if s.all == nil {
		s.all, s.following = make(map[int]*leg.Browser), make(map[int]*leg.Browser)
	}
	s.last++
	a.conn.Handle(leg.SidebandHandlers(s.last, post), nil)
	s.all[s.last] = a.leg
	a.leg.Start(ctx, new(media.Switch), new(media.Flow))
	a.err <- nil
	return s.last, true
}

// send sends an event to one of them. It returns false if that reads too slowly to go on.
func (s *asides) send(e session.ToSideband) bool {
	b := s.all[e.ID]
	if b == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.following[e.ID] = b
	return b.Push(e.Data, e.Draft)
}

// push sends an event to all of them. It returns those that read too slowly to go on.
func (s *asides) push(data []byte, draft bool) (stalled []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, b := range s.following {
		if !b.Push(data, draft) {
			stalled = append(stalled, id)
		}
	}
	return stalled
}

// end ends one of them, once its events have been sent.
func (s *asides) end(id int) {
	b := s.all[id]
	if b == nil {
		return
	}
	delete(s.all, id)
	s.mu.Lock()
	delete(s.following, id)
	s.mu.Unlock()
	s.leaving.Go(b.End)
}

// endAll ends all of them. leaving waits for it.
func (s *asides) endAll() {
	for id := range s.all {
		s.end(id)
	}
}
