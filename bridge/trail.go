package bridge

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// SetUp says when a call reached what, from the request for it to its first sound.
type SetUp struct {
	Began time.Time
	// Steps are what was reached, in the order in which they began. Those of both sides run beside each other.
	Steps []SetUpStep
}

// SetUpStep is a part of a set-up: "browser." or "upstream." with a [media.Step], or one of the call's own, "call.".
type SetUpStep struct {
	Name         string
	Began, Ended time.Time
}

// Ended returns when the last step ended.
func (s *SetUp) Ended() time.Time {
	end := s.Began
	for _, step := range s.Steps {
		if step.Ended.After(end) {
			end = step.Ended
		}
	}
	return end
}

// attrs says for each step when it began and ended, in ms after the request for the call.
func (s *SetUp) attrs() (attrs []any) {
	after := func(at time.Time) string { return strconv.FormatFloat(at.Sub(s.Began).Seconds()*1e3, 'f', 1, 64) }
	for _, step := range s.Steps {
		attrs = append(attrs, step.Name, after(step.Began)+"-"+after(step.Ended))
	}
	return attrs
}

// What a call reaches beside the steps of its connections.
const (
	trailDial     = "upstream.dial" // begins
	trailHistory  = "call.history"  // the call is saved, and the history read
	trailCreated  = "call.session"  // session.created
	trailReplay   = "call.replay"   // the history is sent
	trailSettings = "call.settings" // session.update is sent
	trailUpdated  = "call.updated"  // session.updated
	trailGate     = "call.gate"     // the caller is heard
	trailWord     = "call.first_word"
	trailSound    = "call.first_sound"
)

// trailPatience is how long after the gate's opening both first packets are waited for.
const trailPatience = 10 * time.Second

// trail collects when a call reached what. It is safe for concurrent use but for open, which is the call's loop's.
type trail struct {
	open bool // somebody wants it, and it is not complete

	mu    sync.Mutex
	began time.Time
	at    map[string]time.Time // the first time of each; nil once it has ended
}

func newTrail() *trail { return &trail{open: true, began: time.Now(), at: make(map[string]time.Time)} }

func (t *trail) reach(name string) { t.reachAt(name, time.Now()) }

func (t *trail) reachAt(name string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.at[name]; t.at != nil && !known && !at.IsZero() {
		t.at[name] = at
	}
}

func (t *trail) browser(s media.Step) { t.reach("browser." + string(s)) }

func (t *trail) upstream(s media.Step) { t.reach("upstream." + string(s)) }

// steps returns what was reached. Each step of a connection begins where the one before it ended.
func (t *trail) steps() (steps []SetUpStep) {
	t.mu.Lock()
	defer t.mu.Unlock()
	add := func(name string, began time.Time) (ended time.Time) {
		ended, known := t.at[name]
		if !known || began.IsZero() {
			return began
		}
		if ended.Before(began) {
			began = ended // the two were told at the same moment, by different goroutines
		}
		steps = append(steps, SetUpStep{name, began, ended})
		return ended
	}
	var connected time.Time // both sides
	for side, at := range map[string]time.Time{"browser.": t.began, "upstream.": t.at[trailDial]} {
		for _, s := range []media.Step{media.StepOffer, media.StepAnswer, media.StepICE, media.StepDTLS} {
			at = add(side+string(s), at)
		}
		if at.After(connected) {
			connected = at
		}
		add(side+string(media.StepChannel), at)
	}
	add(trailHistory, t.began)
	at := add(trailCreated, t.at["upstream."+string(media.StepChannel)])
	if replayed, ok := t.at[trailReplay]; ok {
		add(trailSettings, replayed)
	}
	if sent, ok := t.at[trailSettings]; ok {
		at = add(trailUpdated, sent)
	}
	at = add(trailGate, at)
	add(trailWord, at)
	add(trailSound, connected)
	slices.SortStableFunc(steps, func(a, b SetUpStep) int {
		return cmp.Or(a.Began.Compare(b.Began), a.Ended.Compare(b.Ended), cmp.Compare(a.Name, b.Name))
	})
	return steps
}

// input takes an input of the call's loop.
func (t *trail) input(in session.Input) {
	e, ok := in.(session.UpstreamEvent)
	if !ok {
		return
	}
	for kind, name := range map[string]string{
		realtime.TypeSessionCreated: trailCreated, realtime.TypeSessionUpdated: trailUpdated,
	} {
		if bytes.Contains(e.Data, []byte(`"`+kind+`"`)) {
			t.reach(name)
		}
	}
}

// effects takes what an input has led to.
func (t *trail) effects(effects []session.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case session.Replay:
			t.reach(trailReplay)
		case session.ToUpstream:
			if bytes.Contains(e.Data, []byte(`"`+realtime.TypeSessionUpdate+`"`)) {
				t.reach(trailSettings)
			}
		case session.Gate:
			if e.Open {
				t.reach(trailGate)
			}
		}
	}
}

// complete takes when both sides' first packets went through, or zero, and reports whether nothing more is worth
// waiting for.
func (t *trail) complete(word, sound time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	gate := t.at[trailGate]
	return !gate.IsZero() && (!word.IsZero() && !sound.IsZero() || time.Since(gate) > trailPatience)
}

// end takes when both sides' first packets went through, or zero, and returns the steps.
func (t *trail) end(word, sound time.Time) []SetUpStep {
	t.open = false
	t.reachAt(trailWord, word)
	t.mu.Lock()
	if heard := t.at["browser."+string(media.StepDTLS)]; !sound.IsZero() && heard.After(sound) {
		sound = heard // what came before went nowhere
	}
	t.mu.Unlock()
	t.reachAt(trailSound, sound)
	steps := t.steps()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at = nil // later connections are no part of it
	return steps
}
