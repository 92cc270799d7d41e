package media

import (
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/internal/testkit"
)

// TestFiller has a caller speak and save silence: a remote that hears somebody speak gets packets all the time, until
// it has heard the end, and one that hears nobody gets what comes.
func TestFiller(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		hears    func(f *Filler, i int) // what the remote says with the ith frame, of which 50 are speech
		lost     bool                   // the caller is gone after it
		min, max int                    // packets of silence that are added
	}{
		"nobody is heard":    {func(*Filler, int) {}, false, 0, 0},
		"until the end":      {func(f *Filler, i int) { heardBetween(f, i, 10, 75) }, false, 15, 25},
		"heard late":         {func(f *Filler, i int) { heardBetween(f, i, 60, 85) }, false, 15, 25},
		"no end, a caller":   {func(f *Filler, i int) { heardBetween(f, i, 10, 1e6) }, false, 360, 410},
		"no end, no caller":  {func(f *Filler, i int) { heardBetween(f, i, 10, 1e6) }, true, 240, 255},
		"heard while spoken": {func(f *Filler, i int) { heardBetween(f, i, 10, 40) }, false, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var filled, passed tape
				f := NewFiller(sinkFunc(func(p *Packet) error {
					if p.Source == 1000 {
						return passed.WriteAudio(p)
					}
					return filled.WriteAudio(p)
				}))
				sequence, sent := uint16(0), 0
				for i := range 500 {
					silent := i - 50
					payload := []byte{0xf8, 0xff, 0xfe}
					if silent == 0 || silent > 0 && silent%20 == 1 {
						payload = payload[:1]
					}
					if silent <= 0 || silent%20 < 2 && !tt.lost {
						sequence++
						sent++
						if err := f.WriteAudio(&Packet{Source: 1000, Sequence: sequence, Timestamp: uint32(i * FrameStep), Payload: payload}); err != nil {
							t.Error(err)
						}
					}
					tt.hears(f, i)
					<-time.After(FrameTime)
				}
				f.Hears(false)
				<-time.After(time.Second)
				synctest.Wait()
				passed.consecutive(t, 1, sequence)
				if n := len(filled.numbers); n < tt.min || n > tt.max {
					t.Errorf("%d packets of silence, want %d to %d", n, tt.min, tt.max)
				}
			})
		})
	}
}

func heardBetween(f *Filler, i, from, to int) {
	switch i {
	case from:
		f.Hears(true)
	case to:
		f.Hears(false)
	}
}

// TestFillerEnds sends no more to a remote that is gone, and costs nothing while somebody speaks.
func TestFillerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		f := NewFiller(sinkFunc(func(p *Packet) error {
			if n++; p.Source != 1000 {
				return ErrClosed
			}
			return nil
		}))
		f.Hears(true)
		_ = f.WriteAudio(&Packet{Source: 1000, Payload: []byte{0xf8}})
		<-time.After(time.Second)
		synctest.Wait()
		testkit.Equal(t, n, 2, "packets")
	})
	f, speech := NewFiller(sinkFunc(func(*Packet) error { return nil })), &Packet{Source: 1000, Payload: []byte{1, 2, 3}}
	testkit.Equal(t, testing.AllocsPerRun(100, func() { _ = f.WriteAudio(speech) }), 0, "allocations for a packet")
}
