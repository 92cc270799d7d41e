package rtc

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pion/opus/pkg/oggreader"
	"github.com/pion/rtp"
)

// packetsOf reads the Opus packets of an Ogg file.
func packetsOf(t testing.TB, name string) [][]byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, _, err := oggreader.NewWith(f)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for {
		packet, _, err := r.ParseNextPacket()
		if err != nil {
			return out
		}
		if len(packet) < 8 || string(packet[:8]) != "OpusTags" {
			out = append(out, packet)
		}
	}
}

// TestSound judges recordings one second at a time.
func TestSound(t *testing.T) {
	t.Parallel()
	tone := packetsOf(t, "testdata/tone.ogg")
	steady := make([][]byte, 0, 50)
	for len(steady) < 50 {
		steady = append(steady, tone[4+len(steady)%8])
	}
	speech := packetsOf(t, "../simulator/testdata/user.ogg")
	silence := []byte{0xf8, 0xff, 0xfe}
	for _, tt := range []struct {
		name    string
		packets [][]byte
		want    bool
	}{
		{"speech", speech[:50], true},
		{"speech with pauses of DTX", speech[15:45], true},
		{"a steady tone", steady, false},
		{"silence", [][]byte{silence, silence, silence}, false},
		{"nothing", nil, false},
		{"rubbish", [][]byte{{}, {0xff, 0xff}, {1}}, false},
	} {
		h := hearing{packets: make(chan []byte, 50)}
		for _, p := range tt.packets {
			h.take(p)
		}
		got, err := h.sound()
		if err != nil || got.Speech != tt.want {
			t.Errorf("%s: %+v, %v, want speech %t", tt.name, got, err, tt.want)
		}
	}
}

// TestSoundOfNoise judges the levels of synthetic sounds.
func TestSoundOfNoise(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	noise := func(level float64) float64 {
		pcm := make([]int16, frameStep)
		for i := range pcm {
			pcm[i] = int16(random.NormFloat64() * 32768 * math.Pow(10, level/20))
		}
		return Level(pcm)
	}
	for _, tt := range []struct {
		name  string
		level func(frame int) float64
		want  bool
	}{
		{"a fan", func(int) float64 { return noise(-35) }, false},
		{"a loud fan", func(int) float64 { return noise(-15) }, false},
		{"a fan and two clicks", func(i int) float64 { return noise(-40 + 30*float64(min(1, max(0, i%25-23)))) }, false},
		{"whispering far away", func(i int) float64 { return noise(-75 + 15*float64(i/5%2)) }, false},
		{"syllables over a fan", func(i int) float64 { return noise(-45 + 25*float64(i/5%2)) }, true},
		{"silence", func(int) float64 { return Silence }, false},
	} {
		levels := make([]float64, 50)
		for i := range levels {
			levels[i] = tt.level(i)
		}
		if got := soundOf(levels); got.Speech != tt.want {
			t.Errorf("%s: %+v, want speech %t", tt.name, got, tt.want)
		}
	}
}

// TestListen listens to a peer whose gate is shut.
func TestListen(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p := newPair(t, a, a).connected(t)
	ctx, cancel := context.WithCancel(testContext(t))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	speech, at := packetsOf(t, "../simulator/testdata/user.ogg"), 0
	wg.Go(func() {
		speak(ctx, sinkFunc(func(packet *rtp.Packet) error {
			packet.Payload = speech[at%len(speech)]
			at++
			return p.offerer.WriteRTP(packet)
		}), 1, 1, 1)
	})
	var flow Flow
	wg.Go(func() { _ = p.answerer.Forward(ctx, newCollector(), &flow) })
	for heard := (Sound{}); !heard.Speech; {
		var err error
		if heard, err = p.answerer.Listen(ctx, 500*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	cause := errors.New("enough")
	short, stop := context.WithCancelCause(ctx)
	stop(cause)
	if _, err := p.answerer.Listen(short, time.Second); !errors.Is(err, cause) {
		t.Errorf("Listen: %v", err)
	}
	closePeer(t, p.answerer)
	if _, err := p.answerer.Listen(ctx, time.Second); !errors.Is(err, ErrClosed) {
		t.Errorf("Listen after Close: %v", err)
	}
}
