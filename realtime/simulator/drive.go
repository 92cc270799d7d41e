package simulator

import (
	"voicebridge/realtime/media"
)

// Do makes the session's goroutine run f soon, unless the session has ended. Only such functions may call Emit.
func (s *Session) Do(f func()) { s.mail.post(f) }

// Emit sends one event, to which it adds an id.
func (s *Session) Emit(event map[string]any) { s.wire.emit(event) }

// WriteAudio implements media.Sink: it sends a packet to the caller, in addition to what the Script says. It may be
// called on any goroutine.
func (s *Session) WriteAudio(packet *media.Packet) error {
	if peer := s.wire.peer.Load(); peer != nil {
		return (*peer).WriteAudio(packet)
	}
	return media.ErrClosed
}
