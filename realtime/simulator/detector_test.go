package simulator

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
)

func newTestDetector(t *testing.T, set *turnDetection) (*detector, *[]speechEvent) {
	t.Helper()
	var events []speechEvent
	e, err := newDetector(false, func(h speechEvent) { h.cycle = 0; events = append(events, h) })
	if err != nil {
		t.Fatal(err)
	}
	e.configure(set)
	return e, &events
}

func TestTurnsByEnergy(t *testing.T) {
	t.Parallel()
	type stretch struct {
		level float64
		ms    int64
	}
	const quiet, soft, loud = -80, -48, -20 // soft is between the two thresholds
	for name, tt := range map[string]struct {
		threshold float64
		prefix    int64
		in        []stretch
		want      []speechEvent
	}{
		"silence":        {0.5, 300, []stretch{{quiet, 5000}}, nil},
		"a click":        {0.5, 300, []stretch{{quiet, 1000}, {loud, 40}, {quiet, 2000}}, nil},
		"one turn":       {0.5, 300, []stretch{{quiet, 1000}, {loud, 1000}, {quiet, 1000}}, []speechEvent{{started: true, atMS: 700}, {atMS: 2500}}},
		"from the start": {0.5, 300, []stretch{{loud, 200}, {quiet, 600}}, []speechEvent{{started: true}, {atMS: 700}}},
		"a pause":        {0.5, 0, []stretch{{loud, 500}, {quiet, 480}, {loud, 500}, {quiet, 500}}, []speechEvent{{started: true}, {atMS: 1980}}},
		"two turns":      {0.5, 0, []stretch{{loud, 500}, {quiet, 600}, {loud, 500}, {quiet, 500}}, []speechEvent{{started: true}, {atMS: 1000}, {started: true, atMS: 1100}, {atMS: 2100}}},
		"soft goes on":   {0.5, 0, []stretch{{loud, 500}, {soft, 2000}, {quiet, 500}}, []speechEvent{{started: true}, {atMS: 3000}}},
		"soft alone":     {0.5, 0, []stretch{{soft, 3000}}, nil},
		"sensitive":      {0.2, 0, []stretch{{soft, 1000}, {quiet, 500}}, []speechEvent{{started: true}, {atMS: 1500}}},
		"deaf ears":      {1, 0, []stretch{{-35, 3000}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, events := newTestDetector(t, &turnDetection{threshold: tt.threshold, prefixMS: tt.prefix, silenceMS: 500})
			for _, s := range tt.in {
				for range s.ms / frameMS {
					e.feed(s.level, frameMS)
				}
			}
			if diff := cmp.Diff(tt.want, *events, cmp.AllowUnexported(speechEvent{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestHearsRealSpeech feeds packets as they arrive from a network.
func TestHearsRealSpeech(t *testing.T) {
	t.Parallel()
	speech := UserSpeech()
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
			e, events := newTestDetector(t, &turnDetection{threshold: 0.5, prefixMS: 300, silenceMS: 500})
			tt.packets(func(ts uint32, payload []byte) {
				if err := e.WriteAudio(&media.Packet{Timestamp: ts, Payload: payload}); err != nil {
					t.Error(err)
				}
			})
			if len(*events) != 2*tt.turns || !(*events)[0].started || (*events)[1].started {
				t.Errorf("heard %+v", *events)
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
		speech := UserSpeech()
		began := time.Now()
		e, err := newDetector(false, func(h speechEvent) { events = append(events, heard{time.Since(began), h.atMS}) })
		if err != nil {
			t.Fatal(err)
		}
		e.configure(&turnDetection{threshold: 0.5, prefixMS: 300, silenceMS: 500})
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
				if err := e.WriteAudio(&media.Packet{Sequence: sequence, Timestamp: uint32(i) * frameSamples, Payload: payload}); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(frameLength)
			if i%5 == 0 { // as the listener does
				e.starved(time.Now())
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

func TestStarvedSpeechEnds(t *testing.T) {
	t.Parallel()
	e, events := newTestDetector(t, &turnDetection{threshold: 0.5, silenceMS: 500})
	for range 10 {
		e.feed(-20, frameMS)
	}
	now := time.Now()
	e.lastAt = now
	if !e.starved(now.Add(500*time.Millisecond + starvedAfter)) {
		t.Error("speech ended too early")
	}
	if e.starved(now.Add(501*time.Millisecond+starvedAfter)) || len(*events) != 2 {
		t.Errorf("speech goes on: %+v", *events)
	}
	if e.starved(now.Add(time.Hour)) || len(*events) != 2 {
		t.Errorf("speech ended twice: %+v", *events)
	}
}

func TestConfigureDiscardsSpeech(t *testing.T) {
	t.Parallel()
	e, _ := newTestDetector(t, &turnDetection{threshold: 0.5, silenceMS: 500})
	cycle := e.cycle
	e.configure(nil)
	if e.current(cycle) {
		t.Error("the cycle goes on after a change")
	}
	for range 10 {
		e.feed(-20, frameMS)
	}
	if ms := e.commit(); ms != 200 {
		t.Errorf("%d ms in the buffer", ms)
	}
	if ms := e.commit(); ms != 0 {
		t.Errorf("%d ms in an empty buffer", ms)
	}
}

func TestVoice(t *testing.T) {
	t.Parallel()
	v := loadVoice()
	if len(v.clips) < 12 {
		t.Errorf("%d clips", len(v.clips))
	}
	dec, err := opus.NewDecoder(48_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range v.clips {
		loud := 0
		for _, f := range c.frames {
			samples, err := dec.Decode(f)
			if err != nil || len(samples) != frameSamples {
				t.Fatalf("%q: %d samples, %v", c.text, len(samples), err)
			}
			if pcm.Level(samples) > -40 {
				loud++
			}
		}
		if s := len(c.frames) / 50; s < 2 || s > 8 || loud < len(c.frames)/3 {
			t.Errorf("%q: %d s, %d of %d frames are loud", c.text, s, loud, len(c.frames))
		}
	}
	for _, text := range []string{
		textGreet, textGreetAgain, textChartWait, textChartDone, textChartFailed, textThemeDone, textToolWait, textToolDone,
		textToolFailed, textPlain, textPlainAgain, textHistory, textTyped,
	} {
		if !slices.ContainsFunc(v.clips, func(c clip) bool { return c.text == text }) {
			t.Errorf("no clip of %q", text)
		}
	}
	long := 0
	for _, c := range v.clips {
		if strings.Contains(textLong, c.text) {
			long += len(c.frames)
		}
	}
	if got := len(v.say(textLong)); got != long {
		t.Errorf("the long answer has %d frames, its clips %d", got, long)
	}
	if a, b := v.say("Never recorded words. "+textPlain), v.say("Never recorded words. "+textPlain); len(a) != len(b) || len(a) < 3*wordFrames {
		t.Errorf("%d and %d frames", len(a), len(b))
	}
}

func TestChunks(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "one", "one two three four", "  odd   spaces ", "ünï çødé wörds höre ends", textLong} {
		if got := strings.Join(chunks(text), ""); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if n := len(chunks(textLong)); n < 15 {
		t.Errorf("%d chunks", n)
	}
}

func TestSampleArguments(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{}`: `{}`,
		`{"type":"object","properties":{"a":{"type":"string"}}}`: `{}`,
		`{"required":["s","n","i","b","e","c","d","o","l","u","x"],"properties":{"s":{"type":"string"},"n":{"type":"number"},"i":{"type":"integer","minimum":5},
			"b":{"type":"boolean"},"e":{"enum":["one","two"]},"c":{"const":7},"d":{"default":"def"},"o":{"type":"object","required":["k"],"properties":{"k":{"type":["string","null"]}}},
			"l":{"type":"array","items":{"type":"number"}},"u":{"anyOf":[{"type":"boolean"}]}}}`: `{"b":true,"c":7,"d":"def","e":"one","i":5,"l":[1],"n":1,"o":{"k":"hello"},"s":"hello","u":true,"x":"hello"}`,
	} {
		o, err := read[object]([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		if got := sampleArguments(o); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", schema, got, want)
		}
	}
	deep := strings.Repeat(`{"type":"array","items":`, 40) + `{}` + strings.Repeat(`}`, 40)
	o, err := read[object]([]byte(`{"required":["a"],"properties":{"a":` + deep + `}}`))
	if err != nil || !json.Valid([]byte(sampleArguments(o))) {
		t.Errorf("deep schema: %v", err)
	}
}

// FuzzClientEvent checks that no event, however odd, gets past the checks with a
// panic, and that a refused one changes nothing.
func FuzzClientEvent(f *testing.F) {
	for _, raw := range []string{
		`{"session":{"type":"realtime","audio":{"input":{"turn_detection":{"type":"server_vad"}}}}}`,
		`{"session":{"type":"realtime","tools":[{"type":"function","name":"x","parameters":{"type":"object"}}]}}`,
		`{"item":{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}}`,
		`{"item":{"type":"function_call_output","call_id":"c","output":""}}`,
		`{"response":{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"item_reference","id":"x"}]}}`,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := read[object](raw)
		if err != nil || o == nil {
			return
		}
		taken := func(kind string) bool {
			o["type"] = kind
			return realtime.ClientEvents.Check("", o, "gpt-realtime") == nil
		}
		if taken(realtime.TypeSessionUpdate) {
			set := newSettings("gpt-realtime")
			before, _ := json.Marshal(set.shown)
			if refusal := set.update(realtime.Member(raw, "session"), realtime.AtCreation); refusal != nil {
				if after, _ := json.Marshal(set.shown); string(before) != string(after) {
					t.Fatalf("refused with %v, but changed to %s", refusal, after)
				}
			}
		}
		if taken(realtime.TypeResponseCreate) {
			params, _ := o["response"].(object)
			_, _ = new(conversation).context(params)
		}
		if taken(realtime.TypeItemCreate) {
			var conv conversation
			if it, refusal := conv.newItem("item", o["item"].(object)); refusal == nil {
				if _, err := json.Marshal(it.shown()); err != nil || utf8.RuneCountInString(it.id) > realtime.MaxItemID {
					t.Fatalf("item %+v: %v", it, err)
				}
			}
		}
	})
}
