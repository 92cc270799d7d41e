package phone

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/coder/websocket"

	"voicebridge/realtime"
)

// A Stream is the socket of a client to its call.

// Read returns the caller's next event.
func (s *Stream) Read(ctx context.Context) (event []byte, tooLarge int, err error) {
	select {
	case event = <-s.events:
		return event, 0, nil
	case <-s.done:
		return nil, 0, fmt.Errorf("read stream: %w", net.ErrClosed)
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
}

// Write takes an event of the call.
func (s *Stream) Write(_ context.Context, data []byte) error {
	ev, err := realtime.Decode(data)
	if err != nil {
		return nil // it is none for us
	}
	if ev.Type == realtime.TypeInputSpeechStarted {
		s.mu.Lock()
		interrupts := s.interrupts
		s.mu.Unlock()
		if interrupts {
			s.interrupt()
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch ev.Type {
	case realtime.TypeOutputAudioDelta:
		if sound, err := base64.StdEncoding.DecodeString(ev.Delta); err == nil {
			s.player.add(ev.ResponseID, ev.ItemID, sound)
		}
	case realtime.TypeOutputAudioDone:
		s.player.mark(true)
	case realtime.TypeAudioTranscriptDelta:
		if endsSentence(ev.Delta) {
			s.player.mark(false)
		}
	case realtime.TypeSessionCreated, realtime.TypeSessionUpdated:
		s.interrupts = interrupts(ev.Session)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// Stop ends an answer of which nothing more is to be heard. It returns at once.
func (s *Stream) Stop(response string) {
	s.mu.Lock()
	heard := slices.ContainsFunc(s.player.parts, func(a part) bool { return a.response == response })
	s.mu.Unlock()
	if heard {
		go s.interrupt()
	}
}

// interrupts reports whether in a session the caller's speech ends answers.
func interrupts(session json.RawMessage) bool {
	detection := realtime.Member(session, "audio", "input", "turn_detection")
	return string(detection) != "null" && string(realtime.Member(detection, "interrupt_response")) != "false"
}

// Ping has the carrier answer; one that does not is gone.
func (s *Stream) Ping(ctx context.Context) error {
	s.mu.Lock()
	wire := s.wire
	s.mu.Unlock()
	if wire != nil && wire.Ping(ctx) != nil {
		_ = wire.CloseNow()
	}
	return nil
}

// Close ends the stream with the carrier, CloseNow without a word.
func (s *Stream) Close() error {
	wire := s.shut()
	if wire == nil {
		return nil
	}
	if err := wire.Close(websocket.StatusNormalClosure, ""); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close stream: %w", err)
	}
	return nil
}

// CloseNow is Close without a word.
func (s *Stream) CloseNow() error {
	if wire := s.shut(); wire != nil {
		_ = wire.CloseNow() // it is gone in any case
	}
	return nil
}

// shut ends the call's side, and returns the carrier's socket.
func (s *Stream) shut() *websocket.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.done)
		for _, timer := range []*time.Timer{s.lost, s.keysDue} {
			if timer != nil {
				timer.Stop()
			}
		}
	}
	return s.wire
}
