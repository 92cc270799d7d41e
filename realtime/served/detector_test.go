package served

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTestDetector(t *testing.T, set *TurnDetection) (*Detector, *[]Speech) {
	t.Helper()
	var events []Speech
	e, err := NewDetector(new(Energy), false, func(h Speech) { h.cycle = 0; events = append(events, h) })
	testkit.Must(t, err)
	e.Configure(set)
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
		want      []Speech
	}{
		"silence":        {0.5, 300, []stretch{{quiet, 5000}}, nil},
		"a click":        {0.5, 300, []stretch{{quiet, 1000}, {loud, 40}, {quiet, 2000}}, nil},
		"one turn":       {0.5, 300, []stretch{{quiet, 1000}, {loud, 1000}, {quiet, 1000}}, []Speech{{Started: true, At: 700}, {At: 2500}}},
		"from the start": {0.5, 300, []stretch{{loud, 200}, {quiet, 600}}, []Speech{{Started: true}, {At: 700}}},
		"a pause":        {0.5, 0, []stretch{{loud, 500}, {quiet, 480}, {loud, 500}, {quiet, 500}}, []Speech{{Started: true}, {At: 1980}}},
		"two turns":      {0.5, 0, []stretch{{loud, 500}, {quiet, 600}, {loud, 500}, {quiet, 500}}, []Speech{{Started: true}, {At: 1000}, {Started: true, At: 1100}, {At: 2100}}},
		"soft goes on":   {0.5, 0, []stretch{{loud, 500}, {soft, 2000}, {quiet, 500}}, []Speech{{Started: true}, {At: 3000}}},
		"soft alone":     {0.5, 0, []stretch{{soft, 3000}}, nil},
		"sensitive":      {0.2, 0, []stretch{{soft, 1000}, {quiet, 500}}, []Speech{{Started: true}, {At: 1500}}},
		"deaf ears":      {1, 0, []stretch{{-35, 3000}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, events := newTestDetector(t, &TurnDetection{Threshold: tt.threshold, Prefix: tt.prefix, Silence: 500})
			for _, s := range tt.in {
				for range s.ms / frameMS {
					e.feed(frameAt(s.level), media.ClockRate)
				}
			}
			if diff := cmp.Diff(tt.want, *events, cmp.AllowUnexported(Speech{}), cmpopts.IgnoreFields(Speech{}, "heard", "quiet")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// frameAt returns 20 ms of sound at a level in dBFS.
func frameAt(level float64) []int16 {
	return slices.Repeat([]int16{int16(math.Round(32768 * math.Pow(10, level/20)))}, frameSamples)
}

func TestStarvedSpeechEnds(t *testing.T) {
	t.Parallel()
	e, events := newTestDetector(t, &TurnDetection{Threshold: 0.5, Silence: 500})
	for range 10 {
		e.feed(frameAt(-20), media.ClockRate)
	}
	now := time.Now()
	e.lastAt = now
	if !e.Starved(now.Add(500*time.Millisecond + starvedAfter)) {
		t.Error("speech ended too early")
	}
	if e.Starved(now.Add(501*time.Millisecond+starvedAfter)) || len(*events) != 2 {
		t.Errorf("speech goes on: %+v", *events)
	}
	if e.Starved(now.Add(time.Hour)) || len(*events) != 2 {
		t.Errorf("speech ended twice: %+v", *events)
	}
}

func TestConfigureDiscardsSpeech(t *testing.T) {
	t.Parallel()
	e, _ := newTestDetector(t, &TurnDetection{Threshold: 0.5, Silence: 500})
	cycle := e.cycle
	e.Configure(nil)
	if e.current(cycle) {
		t.Error("the cycle goes on after a change")
	}
	for range 10 {
		e.feed(frameAt(-20), media.ClockRate)
	}
	for _, want := range []int64{200, 0} {
		ms, _ := e.commit()
		testkit.Equal(t, ms, want, "in the buffer")
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
		o, err := Read[object](raw)
		if err != nil || o == nil {
			return
		}
		taken := func(kind string) bool {
			o["type"] = kind
			return realtime.ClientEvents.Check("", o, "gpt-realtime") == nil
		}
		if taken(realtime.TypeSessionUpdate) {
			set := NewSettings("gpt-realtime")
			before, _ := json.Marshal(set.shown)
			if refusal := set.Update(realtime.Member(raw, "session"), realtime.AtCreation); refusal != nil {
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
				if _, err := json.Marshal(it.shown()); err != nil || utf8.RuneCountInString(it.ID) > realtime.MaxItemID {
					t.Fatalf("item %+v: %v", it, err)
				}
			}
		}
	})
}
