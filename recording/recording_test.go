package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
)

var must = testkit.Must

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tone returns packets of 20 ms of a tone, as Opus.
func tone(t testing.TB, hertz float64, packets int) [][]byte {
	t.Helper()
	encoder, err := opus.NewEncoder(sampleRate)
	must(t, err)
	out, pcm := make([][]byte, packets), make([]int16, frame)
	for i := range out {
		for n := range pcm {
			pcm[n] = int16(16384 * math.Sin(2*math.Pi*hertz*float64(i*frame+n)/sampleRate))
		}
		packet, err := encoder.Encode(pcm)
		must(t, err)
		out[i] = bytes.Clone(packet)
	}
	return out
}

// nowhere is a Sink that drops everything.
type nowhere struct{}

func (nowhere) WriteAudio(*media.Packet) error { return nil }

// file is a tape in memory.
type file struct {
	mu   sync.Mutex
	data bytes.Buffer
	err  error
}

func (f *file) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return 0, f.err
	}
	return f.data.Write(b)
}

func (f *file) Sync() error { return nil }

func (f *file) bytes() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.Clone(f.data.Bytes())
}

// placed is what a timeline puts out: packets and where each begins.
type placed struct {
	packets [][]byte
	starts  []int
	length  int
}

func (p *placed) put(packet []byte, samples int) error {
	p.packets, p.starts = append(p.packets, packet), append(p.starts, p.length)
	p.length += samples
	return nil
}

// of returns where the packets of the list begin, in ms, -1 for those that are missing.
func (p *placed) of(list [][]byte) (ms []int) {
	for _, packet := range list {
		at := slices.IndexFunc(p.packets, func(b []byte) bool { return &b[0] == &packet[0] })
		if at < 0 {
			ms = append(ms, -1)
			continue
		}
		ms = append(ms, p.starts[at]*1000/sampleRate)
	}
	return ms
}

// TestTimeline places packets that jitter, overtake one another, are lost or come twice, from sources that change.
func TestTimeline(t *testing.T) {
	t.Parallel()
	type packet struct {
		at        int // ms
		source    uint32
		sequence  uint16
		timestamp int // ms by the source's clock
	}
	for name, tt := range map[string]struct {
		packets []packet
		want    []int // ms
		length  int   // of the recording, in ms
	}{
		"jitter":             {[]packet{{100, 1, 1, 0}, {135, 1, 2, 20}, {141, 1, 3, 40}, {200, 1, 4, 60}}, []int{100, 120, 140, 160}, 500},
		"the first are late": {[]packet{{400, 1, 1, 0}, {400, 1, 2, 20}, {401, 1, 3, 40}, {402, 1, 4, 60}, {420, 1, 5, 80}}, []int{340, 360, 380, 400, 420}, 500},
		"overtaken":          {[]packet{{100, 1, 1, 0}, {140, 1, 3, 40}, {141, 1, 2, 20}, {160, 1, 4, 60}}, []int{100, 140, 120, 160}, 500},
		"lost":               {[]packet{{100, 1, 1, 0}, {160, 1, 4, 60}}, []int{100, 160}, 500},
		"twice":              {[]packet{{100, 1, 1, 0}, {101, 1, 1, 0}, {120, 1, 2, 20}}, []int{100, -1, 120}, 500},
		"mute":               {[]packet{{100, 1, 1, 0}, {5000, 1, 2, 4880}, {5020, 1, 3, 4900}}, []int{100, 5000, 5020}, 6000},
		"the clock stood still in a pause": {
			[]packet{{100, 1, 1, 0}, {5000, 1, 2, 20}, {5020, 1, 3, 40}}, []int{100, 5000, 5020}, 6000,
		},
		"another source": {[]packet{{100, 1, 9, 0}, {300, 2, 1, 70000}, {320, 2, 2, 70020}}, []int{100, 300, 320}, 500},
		"another source at once": {
			[]packet{{100, 1, 9, 0}, {110, 2, 1, 70000}, {130, 2, 2, 70020}}, []int{100, 120, 140}, 500,
		},
		"the timestamp wraps around": {
			[]packet{{100, 1, 65535, -20}, {120, 1, 0, 0}, {140, 1, 1, 20}}, []int{100, 120, 140}, 500,
		},
		"nothing": {nil, nil, 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got placed
			line := newTimeline(got.put)
			sound := tone(t, 440, len(tt.packets))
			for i, p := range tt.packets {
				must(t, line.add(taken{at: time.Duration(p.at) * time.Millisecond, Packet: media.Packet{
					Source: p.source, Sequence: p.sequence, Timestamp: uint32(p.timestamp * sampleRate / 1000), Payload: sound[i],
				}}))
			}
			must(t, line.finish(time.Duration(tt.length)*time.Millisecond))
			testkit.Equal(t, got.of(sound), tt.want, "packets")
			if ms := got.length * 1000 / sampleRate; abs(ms-tt.length) > 3 {
				t.Errorf("%d ms long, want %d", ms, tt.length)
			}
		})
	}
}

// TestFlooded has a caller send packets of the greatest length much faster than time goes on, whose timestamps jump or do
// not: the recording does not become longer than the call by more than may be sent faster.
func TestFlooded(t *testing.T) {
	t.Parallel()
	for _, step := range []int{0, 120 * sampleRate / 1000, sampleRate / 4, sampleRate, -sampleRate} {
		length := 0
		line := newTimeline(func(_ []byte, samples int) error { length += samples; return nil })
		for i := range 5000 {
			must(t, line.add(taken{at: time.Duration(i) * 2 * time.Millisecond, Packet: media.Packet{
				Source: 1, Sequence: uint16(i), Timestamp: uint32(i * step), Payload: []byte{0xfb, 6, 0}, // 6 frames of 20 ms
			}}))
		}
		must(t, line.finish(10*time.Second))
		if most := samples(10*time.Second + mostAhead + time.Second); length > most || length < samples(10*time.Second) {
			t.Errorf("a step of %d: 10 s became %d", step, length/sampleRate)
		}
	}
}

// TestSavedSilence places speech on both sides of silence that was not sent (DTX): by the clock of its source, whatever
// its packets' delays, and with what a decoder takes for silence between.
func TestSavedSilence(t *testing.T) {
	t.Parallel()
	var got placed
	line := newTimeline(got.put)
	sound := tone(t, 440, 120)
	var sequence uint16
	send := func(frame, delay int, payload []byte) {
		sequence++
		must(t, line.add(taken{at: time.Duration(100+20*frame+delay) * time.Millisecond, Packet: media.Packet{
			Source: 1, Sequence: sequence, Timestamp: uint32(frame * media.FrameStep), Payload: payload,
		}}))
	}
	var want []int
	for i, payload := range sound {
		at := i
		if i >= 60 {
			at += 120 // 2.4 s
		}
		if i == 60 {
			for refresh := 60; refresh < 180; refresh += 20 {
				send(refresh, 30, []byte{payload[0], 0xff, 0xfe})
				send(refresh+1, 5, []byte{payload[0]})
			}
		}
		send(at, i*7%50, payload)
		want = append(want, 100+20*at)
	}
	must(t, line.finish(6*time.Second))
	testkit.Equal(t, got.of(sound), want, "packets")
	testkit.Equal(t, got.length, 6*sampleRate, "samples")
	fills := 0
	for i, packet := range got.packets {
		if at := got.starts[i] * 1000 / sampleRate; at > 1400 && at < 3600 && opus.IsEmpty(packet) {
			fills++
		}
	}
	if fills < 95 {
		t.Errorf("only %d packets in the silence leave it to the decoder", fills)
	}
}

// TestDrift has a microphone whose clock is slow by 200 ppm speak for an hour: the recording is as long as the hour.
func TestDrift(t *testing.T) {
	t.Parallel()
	var got placed
	line := newTimeline(func(_ []byte, samples int) error { got.length += samples; return nil })
	sound := tone(t, 440, 1)[0]
	const packets = 50 * 3600
	last := 0
	for i := range packets {
		at := time.Duration(float64(i) * 20e6 * 1.0002)
		must(t, line.add(taken{at: at, Packet: media.Packet{
			Source: 1, Sequence: uint16(i), Timestamp: uint32(i * frame), Payload: sound,
		}}))
		if i > window {
			last = max(last, abs(line.end-samples(at)))
		}
	}
	if last > samples(500*time.Millisecond) {
		t.Errorf("a packet is placed %d ms from when it came", last*1000/sampleRate)
	}
	length := time.Duration(packets * 20e6 * 1.0002)
	must(t, line.finish(length))
	if off := got.length - samples(length); abs(off) > samples(20*time.Millisecond) {
		t.Errorf("the hour is %d ms too long", off*1000/sampleRate)
	}
}

// record speaks n packets on each side, of which those of the user pause in the middle, and returns the tape.
func record(t *testing.T, cut int) (tapeBytes []byte, user, assistant [][]byte) {
	t.Helper()
	user, assistant = tone(t, 440, 100), tone(t, 880, 100)
	synctest.Test(t, func(t *testing.T) {
		var f file
		r := newRecorder(&f, head{CallID: "c", Owner: "o"}, slog.New(slog.DiscardHandler), func(int) {}, func() {})
		r.Run(true)
		up, down := r.User(nowhere{}), r.Assistant(nowhere{})
		time.Sleep(10 * time.Millisecond) // so that no packet comes as the tape is written
		for i := range 150 {
			time.Sleep(20 * time.Millisecond)
			if i < 50 || i >= 100 {
				n := min(i, i-50*(i/100))
				must(t, up.WriteAudio(&media.Packet{Source: 1, Sequence: uint16(n), Timestamp: uint32(i) * media.FrameStep, Payload: user[n]}))
			}
			if i < 100 {
				must(t, down.WriteAudio(&media.Packet{Source: 2, Sequence: uint16(i), Timestamp: uint32(i) * media.FrameStep, Payload: assistant[i]}))
			}
			if i == cut {
				tapeBytes = f.bytes()
			}
		}
		r.Close()
		if cut < 0 {
			tapeBytes = f.bytes()
		}
	})
	return tapeBytes, user, assistant
}

// packetsOf returns a file's packets of sound, without those that fill gaps.
func packetsOf(t *testing.T, file []byte) (packets [][]byte, length int) {
	t.Helper()
	in := newOggReader(bytes.NewReader(file))
	for {
		packet, err := in.next()
		if errors.Is(err, io.EOF) {
			return packets, length
		}
		must(t, err)
		length += opus.Duration(packet)
		if len(packet) > 3 {
			packets = append(packets, packet)
		}
	}
}

// TestKeep records both sides of a call, and a call whose process is killed: the packets are those that passed, and
// both tracks are as long as the call.
func TestKeep(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cut             int
		user, assistant int // packets
		ms              int
	}{
		"whole":  {-1, 100, 100, 3000},
		"killed": {124, 50, 99, 2000}, // the last second is lost
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, user, assistant := record(t, tt.cut)
			if tt.cut >= 0 {
				data = append(data, data[len(data)-100:]...) // and its last write is not whole
			}
			opened, err := openTape(bytes.NewReader(data))
			must(t, err)
			store := Folder(t.TempDir())
			a := &Archive{cfg: Config{Tapes: t.TempDir(), Store: store}}
			_, err = a.keep(t.Context(), opened)
			must(t, err)
			for _, side := range []struct {
				track Track
				sent  [][]byte
			}{{User, user[:tt.user]}, {Assistant, assistant[:tt.assistant]}} {
				data, err := os.ReadFile(filepath.Join(string(store), "c", trackFile(side.track)))
				must(t, err)
				packets, length := packetsOf(t, data)
				if !slices.EqualFunc(packets, side.sent, bytes.Equal) {
					t.Errorf("%s: %d packets, want the %d that were sent", side.track, len(packets), len(side.sent))
				}
				if ms := length * 1000 / sampleRate; abs(ms-tt.ms) > 40 {
					t.Errorf("%s: %d ms, want %d", side.track, ms, tt.ms)
				}
			}
		})
	}
}

// TestPause keeps nothing of what is said in a pause, which keeps its length.
func TestPause(t *testing.T) {
	t.Parallel()
	sound := tone(t, 440, 150)
	synctest.Test(t, func(t *testing.T) {
		var f file
		r := newRecorder(&f, head{CallID: "c"}, slog.New(slog.DiscardHandler), func(int) {}, func() {})
		r.Run(true)
		up := r.User(nowhere{})
		for i, payload := range sound {
			r.Run(i < 50 || i >= 100)
			must(t, up.WriteAudio(&media.Packet{Sequence: uint16(i), Timestamp: uint32(i) * media.FrameStep, Payload: payload}))
			time.Sleep(20 * time.Millisecond)
		}
		r.Close()
		opened, err := openTape(bytes.NewReader(f.bytes()))
		must(t, err)
		var got placed
		line := newTimeline(got.put)
		for p, ok := opened.next(); ok; p, ok = opened.next() {
			must(t, line.add(p))
		}
		must(t, line.finish(opened.length))
		kept := slices.DeleteFunc(slices.Clone(got.packets), func(b []byte) bool { return len(b) <= 3 })
		if !slices.EqualFunc(kept, slices.Concat(sound[:50], sound[100:]), bytes.Equal) {
			t.Errorf("%d packets were kept", len(kept))
		}
		if ms := got.length * 1000 / sampleRate; abs(ms-3000) > 20 {
			t.Errorf("%d ms long", ms)
		}
	})
}

// TestHeld has packets come while they cannot be passed on, as a call is set up, and pass in a hurry later: each stands
// where it came, and what came before the client was told of the recording, or in a pause, is not kept.
func TestHeld(t *testing.T) {
	t.Parallel()
	const all, before = 200, 25
	for name, tt := range map[string]struct {
		until  int // the packets before that one are held
		paused bool
		kept   int
	}{
		"half a second before, and a second": {75, false, all - before},
		"as it begins":                       {before + 1, false, all - before},
		"before a pause, and in it":          {100, true, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sound := tone(t, 440, all)
			synctest.Test(t, func(t *testing.T) {
				var f file
				r := newRecorder(&f, head{CallID: "c"}, slog.New(slog.DiscardHandler), func(int) {}, func() {})
				up := r.User(nowhere{})
				var held []media.Packet
				for i, payload := range sound {
					p := media.Packet{Sequence: uint16(i), Timestamp: uint32(i) * media.FrameStep, Payload: payload, Came: time.Now()}
					switch {
					case i == before:
						r.Run(true)
					case i == 50 && tt.paused:
						r.Run(false)
					case i == 100 && tt.paused:
						r.Run(true)
					}
					if held = append(held, p); i+1 >= tt.until {
						for n := range min(2, len(held)) {
							must(t, up.WriteAudio(&held[n]))
						}
						held = held[min(2, len(held)):]
					}
					time.Sleep(20 * time.Millisecond)
				}
				for i := range held {
					must(t, up.WriteAudio(&held[i]))
				}
				r.Close()
				opened, err := openTape(bytes.NewReader(f.bytes()))
				must(t, err)
				var got placed
				line := newTimeline(got.put)
				for p, ok := opened.next(); ok; p, ok = opened.next() {
					must(t, line.add(p))
				}
				must(t, line.finish(opened.length))
				var want, ms []int
				for i := range tt.kept {
					want = append(want, (all-tt.kept+i-before)*20)
				}
				for i, packet := range got.packets {
					if len(packet) > 3 {
						ms = append(ms, got.starts[i]*1000/sampleRate)
					}
				}
				testkit.Equal(t, ms, want, "packets")
				if ms := got.length * 1000 / sampleRate; abs(ms-20*(all-before)) > 20 {
					t.Errorf("%d ms long", ms)
				}
			})
		})
	}
}

// TestStop ends a recording some time before it is written, with a packet on its way.
func TestStop(t *testing.T) {
	t.Parallel()
	sound := tone(t, 440, 51)
	synctest.Test(t, func(t *testing.T) {
		var f file
		r := newRecorder(&f, head{CallID: "c"}, slog.New(slog.DiscardHandler), func(int) {}, func() {})
		r.Run(true)
		up := r.User(nowhere{})
		for i, payload := range sound {
			if i == 50 {
				r.Stop()
			}
			must(t, up.WriteAudio(&media.Packet{Sequence: uint16(i), Timestamp: uint32(i) * media.FrameStep, Payload: payload}))
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(2 * flushTime)
		r.Close()
		must(t, up.WriteAudio(&media.Packet{Sequence: 51, Timestamp: 51 * media.FrameStep, Payload: sound[0]}))
		opened, err := openTape(bytes.NewReader(f.bytes()))
		must(t, err)
		packets := 0
		for _, ok := opened.next(); ok; _, ok = opened.next() {
			packets++
		}
		if packets != 51 || opened.length != time.Second {
			t.Errorf("%d packets and %v were kept", packets, opened.length)
		}
	})
}

// TestFull drops what cannot be written in time, counts it, and never fails the call.
func TestFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f file
		var lost atomic.Int64
		var failed atomic.Bool
		r := newRecorder(&f, head{CallID: "c"}, slog.New(slog.DiscardHandler), func(n int) { lost.Add(int64(n)) }, func() { failed.Store(true) })
		r.Run(true)
		up := r.User(nowhere{})
		for range maxWaiting/1000 + 10 {
			must(t, up.WriteAudio(&media.Packet{Payload: make([]byte, 1000)}))
		}
		time.Sleep(2 * flushTime)
		synctest.Wait()
		if n := lost.Load(); n < 10 {
			t.Errorf("%d packets were counted as lost", n)
		}
		f.mu.Lock()
		f.err = errors.New("disk full")
		f.mu.Unlock()
		must(t, up.WriteAudio(&media.Packet{Payload: []byte{0xf8}}))
		time.Sleep(2 * flushTime)
		must(t, up.WriteAudio(&media.Packet{Payload: []byte{0xf8}}))
		synctest.Wait()
		r.mu.Lock()
		waiting := len(r.waiting)
		r.mu.Unlock()
		if waiting != 0 || !failed.Load() {
			t.Error("packets wait for a file that cannot be written")
		}
		r.Close()
	})
}

// TestPCM records a side that speaks PCM: it is encoded.
func TestPCM(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f file
		r := newRecorder(&f, head{CallID: "c"}, slog.New(slog.DiscardHandler), func(int) {}, func() {})
		r.Run(true)
		format := media.Format{Rate: 24000}
		up := r.User(nowhere{})
		for i := range 50 {
			must(t, up.WriteAudio(&media.Packet{Sequence: uint16(i), Timestamp: uint32(i) * media.FrameStep, Format: format, Payload: make([]byte, format.Frame())}))
		}
		r.Close()
		opened, err := openTape(bytes.NewReader(f.bytes()))
		must(t, err)
		n := 0
		for p, ok := opened.next(); ok; p, ok = opened.next() {
			if opus.Duration(p.Payload) != frame {
				t.Fatalf("a packet of %d samples", opus.Duration(p.Payload))
			}
			n++
		}
		testkit.Equal(t, n, 50, "packets")
	})
}

// TestMix makes a file of both sides, in which each has its channel, and their levels.
func TestMix(t *testing.T) {
	t.Parallel()
	var files [tracks]bytes.Buffer
	for track, packets := range map[Track][][]byte{User: tone(t, 440, 100), Assistant: tone(t, 880, 50)} {
		out := newOgg(&files[track], 1, preSkip)
		for _, p := range packets {
			must(t, out.put(p, frame))
		}
		must(t, out.close())
	}
	var both bytes.Buffer
	levels, err := mix(t.Context(), &both, &files[User], &files[Assistant])
	must(t, err)
	if _, length := packetsOf(t, both.Bytes()); length != 100*frame {
		t.Errorf("%d samples", length)
	}
	if n, m := len(levels.User), len(levels.Assistant); n != 2*peaksPerSecond || m != peaksPerSecond {
		t.Fatalf("%d and %d levels", n, m)
	}
	for _, level := range levels.User[1:] {
		if level < 45 || level > 60 {
			t.Errorf("a tone at half of what is possible has the level %d", level)
		}
	}
	data, err := json.Marshal(Peaks{PerSecond: 20, User: []int8{0, 100}, Assistant: []int8{}})
	must(t, err)
	testkit.Equal(t, string(data), `{"per_second":20,"user":[0,100],"assistant":[]}`, "string(data)")
}

// TestCut cuts a second out of the middle of a track: it begins a little earlier, which a player leaves out.
func TestCut(t *testing.T) {
	t.Parallel()
	sound := tone(t, 440, 300)
	var whole bytes.Buffer
	out := newOgg(&whole, 1, preSkip)
	for _, p := range sound {
		must(t, out.put(p, frame))
	}
	must(t, out.close())
	for name, tt := range map[string]struct{ start, end, first, last, skip int }{ // in packets
		"middle":       {100, 150, 96, 150, 4*frame + preSkip},
		"beginning":    {0, 10, 0, 10, preSkip},
		"over the end": {290, 900, 286, 300, 4*frame + preSkip},
		"behind it":    {400, 410, 0, 0, preSkip},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var part bytes.Buffer
			must(t, cut(&part, bytes.NewReader(whole.Bytes()), tt.start*frame, tt.end*frame))
			packets, _ := packetsOf(t, part.Bytes())
			if !slices.EqualFunc(packets, sound[tt.first:tt.last], bytes.Equal) {
				t.Errorf("%d packets", len(packets))
			}
			testkit.Equal(t, int(part.Bytes()[38])|int(part.Bytes()[39])<<8, tt.skip, "a player leaves out samples")
		})
	}
	if err := cut(io.Discard, bytes.NewReader(whole.Bytes()[:2000]), 0, 1<<30); !errors.Is(err, errOgg) {
		t.Errorf("a file that is not whole: %v", err)
	}
}

// TestStores keeps files, replaces them, reads from their middle, and never leaves its place, in a folder and over S3.
func TestStores(t *testing.T) {
	t.Parallel()
	backend := s3mem.New()
	must(t, backend.CreateBucket("calls"))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	cfg := S3Config{Endpoint: server.URL, Region: "eu-1", KeyID: "id", Secret: "secret"}
	for _, address := range []string{filepath.Join(t.TempDir(), "deep", "er"), "s3://calls/some/where"} {
		store, err := NewStore(address, cfg)
		must(t, err)
		ctx := t.Context()
		for _, text := range []string{"one", "two"} {
			must(t, store.Put(ctx, "c", "a.ogg", strings.NewReader(text), 3))
		}
		must(t, store.Put(ctx, "cc", "a.ogg", strings.NewReader("other"), 5))
		file, err := store.Open(ctx, "c", "a.ogg")
		must(t, err)
		_, err = file.Seek(1, io.SeekStart)
		must(t, err)
		data, err := io.ReadAll(file)
		must(t, errors.Join(err, file.Close()))
		if string(data) != "wo" {
			t.Errorf("%s: the file has %q", address, data)
		}
		for _, folder := range []string{"", ".", "..", "../x"} {
			if err := store.Delete(ctx, folder); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%s: delete %q: %v", address, folder, err)
			}
		}
		must(t, store.Delete(ctx, "c"))
		must(t, store.Delete(ctx, "c"))
		if _, err := store.Open(ctx, "c", "a.ogg"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a deleted file: %v", address, err)
		}
		file, err = store.Open(ctx, "cc", "a.ogg")
		must(t, err)
		must(t, file.Close())
	}
	for _, address := range []string{"s3://", "s3:calls", "s3:///x"} {
		if _, err := NewStore(address, cfg); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
	if _, err := NewStore("s3://calls", S3Config{Endpoint: server.URL + "/storage/s3"}); err == nil {
		t.Error("the path of an endpoint is left out in silence")
	}
	if _, err := NewStore("s3://calls", S3Config{Endpoint: "nowhere"}); err == nil {
		t.Error("a server without an address is taken")
	}
}

// shortS3 says that it has kept a file, of which it lacks the last byte.
type shortS3 struct{ gofakes3.Backend }

func (s shortS3) PutObject(bucket, key string, meta map[string]string, in io.Reader, size int64, conditions *gofakes3.PutConditions) (gofakes3.PutObjectResult, error) {
	data, err := io.ReadAll(in)
	if err != nil {
		return gofakes3.PutObjectResult{}, err
	}
	return s.Backend.PutObject(bucket, key, meta, bytes.NewReader(data[:size-1]), size-1, conditions)
}

// TestStoreKeepsLess uploads to a server that says that all went well and has not kept the whole file.
func TestStoreKeepsLess(t *testing.T) {
	t.Parallel()
	backend := s3mem.New()
	must(t, backend.CreateBucket("calls"))
	server := httptest.NewServer(gofakes3.New(shortS3{backend}).Server())
	t.Cleanup(server.Close)
	store, err := NewStore("s3://calls", S3Config{Endpoint: server.URL, Region: "eu-1", KeyID: "id", Secret: "secret"})
	must(t, err)
	if err := store.Put(t.Context(), "c", "a.ogg", strings.NewReader("three"), 5); err == nil || !strings.Contains(err.Error(), "4 of 5 bytes") {
		t.Errorf("Put() = %v, want that 4 of 5 bytes are there", err)
	}
}

// FuzzTape reads what is no tape.
func FuzzTape(f *testing.F) {
	block := appendPacket(make([]byte, blockHead), User, time.Second, &media.Packet{Payload: []byte{0xf8, 0xff, 0xfe}})
	sealBlock(block, time.Second)
	f.Add(append([]byte(`{"version":1,"call_id":"c"}`+"\n"), block...))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		opened, err := openTape(bytes.NewReader(data))
		if err != nil {
			return
		}
		line := newTimeline(func(_ []byte, samples int) error {
			if samples <= 0 || samples > opus.Longest {
				t.Fatalf("%d samples", samples)
			}
			return nil
		})
		for p, ok := opened.next(); ok; p, ok = opened.next() {
			p.at %= time.Hour
			must(t, line.add(p))
		}
	})
}

// FuzzOgg reads what is no Ogg file.
func FuzzOgg(f *testing.F) {
	var file bytes.Buffer
	out := newOgg(&file, 1, preSkip)
	_ = out.put(silences[0], frame)
	_ = out.close()
	f.Add(file.Bytes())
	f.Fuzz(func(_ *testing.T, data []byte) {
		_ = cut(io.Discard, bytes.NewReader(data), 0, sampleRate)
	})
}
