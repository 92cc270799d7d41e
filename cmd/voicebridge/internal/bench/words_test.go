package bench

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// recorder is an upstream session that keeps what is emitted.
type recorder struct{ events []map[string]any }

func (r *recorder) Emit(event map[string]any) { r.events = append(r.events, event) }
func (*recorder) AddCall(_, _, _ string)      {}
func (*recorder) Forget()                     {}

func TestWholeTranscriptsAreSent(t *testing.T) {
	t.Parallel()
	session := &recorder{}
	m := newMeasurement()
	w := m.open(time.Hour)
	n := &transcriptSender{session: session, m: m, size: 80, name: "1"}
	for i := range answerEvents + 1 {
		n.send(w.from + int64(i))
	}
	n.end()
	n.end() // nothing is being sent
	var deltas, whole string
	kinds := map[string]int{}
	for _, e := range session.events {
		kind, _ := e["type"].(string)
		kinds[kind]++
		if delta, ok := e["delta"].(string); ok {
			deltas += delta
			if len(delta) != 80 {
				t.Fatalf("%q", delta)
			}
			m.receiveWords(delta)
		}
		if transcript, ok := e["transcript"].(string); ok {
			whole += transcript
		}
	}
	if deltas != whole || kinds["response.created"] != 2 || kinds["response.done"] != 2 || kinds["conversation.item.added"] != 2 {
		t.Errorf("%v", kinds)
	}
	if p := w.words.path(0); p.Sent != answerEvents+1 || p.Lost != 0 {
		t.Errorf("%+v", p)
	}
	for _, bad := range []string{"", "words", " not-a-num", strings.Repeat("x", 20)} {
		m.receiveWords(bad)
	}
	if p := w.words.path(0); p.Lost != 0 {
		t.Errorf("%+v", p)
	}
}

func TestFirstAnswerIsShorter(t *testing.T) {
	t.Parallel()
	session := &recorder{}
	m := newMeasurement()
	n := &transcriptSender{session: session, m: m, size: 10, name: "1", first: 3}
	for i := range 3 + answerEvents {
		n.send(int64(i))
	}
	var lengths []int
	for _, e := range session.events {
		if transcript, ok := e["transcript"].(string); ok {
			lengths = append(lengths, len(transcript)/10)
		}
	}
	if !slices.Equal(lengths, []int{3, answerEvents}) {
		t.Errorf("answers of %d events", lengths)
	}
}

func TestCompareWith(t *testing.T) {
	t.Parallel()
	r, other := sample(), sample()
	half := func(cpu float64) WordsHalf { return WordsHalf{CPUPerCall: &cpu} }
	r.Words = []Words{{Calls: 50, EventsPerSecond: 20, EventBytes: 10, With: half(1.2)}, {Calls: 7}}
	other.Words = []Words{{Calls: 50, EventsPerSecond: 20, EventBytes: 10, With: half(1.0)}}
	r.CompareWith(other)
	found := false
	for _, f := range r.Against.Figures {
		if f.Name == "50 calls, 20 events of 10 bytes: CPU % per call" {
			found = f.Ratio == 1.2
		}
	}
	if !found {
		t.Errorf("%+v", r.Against)
	}
	for _, bad := range []string{"", "{}", "[]", "before"} {
		if _, err := ReadReport([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
