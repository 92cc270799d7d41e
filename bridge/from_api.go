package bridge

import (
	"cmp"
	"maps"
	"slices"

	"voicebridge/realtime"
)

// say puts text into the conversation and asks for the answer to it.
func (s *state) say(in said) {
	if s.phase >= draining {
		return
	}
	if s.phase < live {
		s.heldTexts = append(s.heldTexts, in)
		return
	}
	itemID := s.nextItemID()
	s.turns.needs = append(s.turns.needs, need{id: itemID}) // before a refusal drops it
	s.typed(in, itemID, sentEvent{kind: sentText})
}

// stopTurn stops the turn: the answer, the rest of its sound, and its tools. What
// nobody has answered yet is not asked for any more.
func (s *state) stopTurn(in interruption) {
	q := &s.turns
	stopped := s.phase == live && (q.turn || s.spoken.playing != "")
	s.do(answer{in.stopped, stopped})
	if !stopped {
		return
	}
	for _, run := range slices.Clone(s.open) {
		if !run.done {
			s.cancelRun(run)
		}
	}
	q.needs = nil
	switch {
	case q.active != "":
		s.cancelResponse(q.active)
	case q.create != nil:
		q.create.unwanted = true
	}
	if s.spoken.playing != "" {
		s.do(toUpstream{realtime.OutputAudioBufferClear(s.nextEventID(sentEvent{}))})
	}
}

func (s *state) cancelResponse(id string) {
	s.do(toUpstream{realtime.ResponseCancel(s.nextEventID(sentEvent{}), id)})
}

// forget has the model forget what was said, all but the turn that goes on. The
// thread keeps it.
func (s *state) forget() {
	if s.phase >= draining {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(s.script.items)) {
		if it := s.script.items[id]; s.forgettable(it) {
			it.forgotten = true
			s.do(toUpstream{realtime.ItemDelete(s.nextEventID(sentEvent{}), id)})
		}
	}
	// What comes next may be the first item of the conversation, and is not the first
	// message.
	if tail := s.script.tail; tail != nil {
		s.lastMessage, s.script.tail = cmp.Or(tail.message.after, tail.message.id), nil
	}
}

// forgettable says whether an item is in the conversation and over.
func (s *state) forgettable(it *item) bool {
	wanted := func(n need) bool {
		r := it.message.of()
		return n.id == it.id || r != nil && n.batch == r.id
	}
	runs := func(r *toolRun) bool { return !r.done && r.message == it.message }
	switch m := it.message; {
	case it.forgotten, it.raw.Type == "" && !it.seeded:
		return false
	case slices.ContainsFunc(s.turns.needs, wanted), slices.ContainsFunc(s.open, runs):
		return false
	case m != nil && (m.open() || !m.placed):
		return false
	case m.of() != nil:
		return m.response.done && m.response.open() == 0
	}
	return true
}
