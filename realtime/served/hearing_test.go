package served_test

import (
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
	"voicebridge/realtime/served"
	"voicebridge/realtime/simulator"
)

// TestHearsRealSpeech feeds packets as they arrive from a network.
func TestHearsRealSpeech(t *testing.T) {
	t.Parallel()
	speech := simulator.UserSpeech()
	for name, tt := range map[string]struct {
		packets func(send func(ts uint32, payload []byte))
		turns   int
	}{
		"complete": {func(send func(uint32, []byte)) {
			for i, p := range speech {
				send(uint32(i)*960, p)
			}
		}, 1},
		"clock wraps": {func(send func(uint32, []byte)) {
			for i, p := range speech {
				send(1<<32-100_000+uint32(i)*960, p)
			}
		}, 1},
		"losses, repeats and garbage": {func(send func(uint32, []byte)) {
			for i, p := range speech {
				switch {
				case i%10 == 3:
				case i%10 == 5:
					send(uint32(i)*960, []byte{0xff})
				default:
					send(uint32(i)*960, p)
					send(uint32(i)*960, p)
				}
			}
		}, 1},
		"silence by a gap": {func(send func(uint32, []byte)) {
			for i, p := range speech[:150] {
				send(uint32(i)*960, p)
			}
			send(48_000*8, speech[0])
		}, 1},
		"a new clock": {func(send func(uint32, []byte)) {
			for i, p := range speech[:100] {
				send(uint32(i)*960, p)
			}
			for i, p := range speech[100:] {
				send(3_000_000+uint32(i)*960, p)
			}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var events []served.Speech
			e, err := served.NewDetector(new(served.Energy), false, func(h served.Speech) { events = append(events, h) })
			testkit.Must(t, err)
			e.Configure(&served.TurnDetection{Threshold: 0.5, Prefix: 300, Silence: 500})
			tt.packets(func(ts uint32, payload []byte) {
				if err := e.WriteAudio(&media.Packet{Timestamp: ts, Payload: payload}); err != nil {
					t.Error(err)
				}
			})
			if len(events) != 2*tt.turns || !events[0].Started || events[1].Started {
				t.Errorf("heard %+v", events)
			}
		})
	}
}

// heard is when speech began or ended, and where in the sound.
type heard struct {
	after time.Duration
	atMS  int64
}

// hear has a caller speak three times, with silence that is sent or not (DTX), and what comes after it late, and
// returns what the detector reports.
func hear(t *testing.T, dtx bool, late time.Duration) (events []heard) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		speech := simulator.UserSpeech()
		began := time.Now()
		e, err := served.NewDetector(new(served.Energy), false, func(h served.Speech) { events = append(events, heard{time.Since(began), h.At}) })
		testkit.Must(t, err)
		e.Configure(&served.TurnDetection{Threshold: 0.5, Prefix: 300, Silence: 500})
		sequence, silent := uint16(0), 0
		for i := range 3 * len(speech) {
			payload := speech[i%len(speech)]
			switch at := i % len(speech); {
			case at < 190: // speech, and the silence before the encoder notices it
				if silent > 0 {
					time.Sleep(late)
				}
				silent = 0
			case dtx && silent%20 == 1:
				payload = payload[:1]
				silent++
			case dtx && silent%20 > 1:
				payload = nil
				silent++
			default:
				silent++
			}
			if payload != nil {
				sequence++
				if err := e.WriteAudio(&media.Packet{Sequence: sequence, Timestamp: uint32(i) * media.FrameStep, Payload: payload}); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(media.FrameTime)
			if i%5 == 0 { // as the listener does
				e.Starved(time.Now())
			}
		}
	})
	return events
}

// TestHearsSilenceThatIsNotSent hears turns end, and the next ones begin, as if silence were sent, even if what comes
// after it is late.
func TestHearsSilenceThatIsNotSent(t *testing.T) {
	t.Parallel()
	sent := hear(t, false, 0)
	for _, late := range []time.Duration{0, 150 * time.Millisecond} {
		got := hear(t, true, late)
		if len(sent) != 6 || len(got) != 6 {
			t.Fatalf("heard %v, and if all is sent %v", got, sent)
		}
		delayed := time.Duration(0) // by the silences so far
		for i := range got {
			if i > 0 && i%2 == 0 {
				delayed += late
			}
			off := got[i].after - sent[i].after - delayed
			place := time.Duration(got[i].atMS-sent[i].atMS) * time.Millisecond
			if off < -40*time.Millisecond || off > 120*time.Millisecond || place < -40*time.Millisecond || place > delayed+40*time.Millisecond {
				t.Errorf("late by %s, heard %+v, and if all is sent %+v", late, got[i], sent[i])
			}
		}
	}
}
