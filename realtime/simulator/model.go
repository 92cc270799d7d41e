package simulator

import (
	"github.com/pion/rtp"

	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
)

// Do makes the session's goroutine run f soon, unless the session has ended. Only such functions, and a Model, may call
// Emit, AddCall, Forget and Settings.
func (s *Session) Do(f func()) { s.mail.post(f) }

// Emit sends one event, to which it adds an id.
func (s *Session) Emit(event map[string]any) { s.wire.emit(event) }

// AddCall adds a function call by the model, still without arguments, at the end of the
// conversation and tells the client.
func (s *Session) AddCall(id, callID, name string) {
	it := &item{id: id, kind: realtime.ItemFunctionCall, status: "in_progress", callID: callID, name: name}
	s.items.append(it)
	s.items.announce(realtime.TypeItemAdded, it)
}

// Forget drops all items of the conversation except the last, after which others are placed.
func (s *Session) Forget() {
	if n := len(s.items.items); n > 1 {
		s.items.items = append([]*item(nil), s.items.items[n-1])
	}
}

// Settings returns the session object as shown. It must not be changed.
func (s *Session) Settings() map[string]any { return s.set.shown }

// WriteRTP implements rtc.AudioSink: it sends a packet to the caller, in addition to what the Script says. It may be
// called on any goroutine.
func (s *Session) WriteRTP(packet *rtp.Packet) error {
	if peer := s.wire.peer.Load(); peer != nil {
		return peer.WriteRTP(packet)
	}
	return rtc.ErrClosed
}
