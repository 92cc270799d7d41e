package session

import (
	"encoding/json"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/thread"
)

// itemAdded takes conversation.item.added (and created, its beta name) and reports whether the
// browser sees it.
func (s *State) itemAdded(ev *realtime.Event) bool {
	raw, err := realtime.DecodeItem(ev.Item)
	return err != nil || raw.ID == "" || s.itemKnown(ev, raw)
}

// itemKnown takes what conversation.item.added or done says about an item, and reports whether the browser sees it.
func (s *State) itemKnown(ev *realtime.Event, raw realtime.Item) bool {
	it := s.transcript.item(raw.ID)
	it.know(raw)
	it.link(ev)
	if it.seeded {
		if s.up.forgot && !it.forgotten {
			s.deleteItem(it)
		}
		return false
	}
	s.answers.acked(it.id)
	switch {
	case raw.Type != realtime.ItemMessage:
	case raw.Role == string(thread.RoleUser):
		s.userItem(it, raw)
	case raw.Role == string(thread.RoleAssistant):
		m := s.answers.message(it, "")
		if !m.placed {
			s.transcript.write(m)
		}
	}
	return true
}

// itemDone takes conversation.item.done.
func (s *State) itemDone(ev *realtime.Event) bool {
	raw, err := realtime.DecodeItem(ev.Item)
	if err != nil || raw.ID == "" {
		return true
	}
	visible := s.itemKnown(ev, raw)
	if visible {
		s.outputDone(&raw, nil, false)
	}
	return visible
}

// userItem takes an item of the user: spoken, or typed through this call.
func (s *State) userItem(it *item, raw realtime.Item) {
	if m := it.message; m != nil {
		if !m.placed {
			s.transcript.write(m) // typed: the upstream has it now, and so its place is known
		}
		return
	}
	for _, c := range raw.Content {
		if c.Type == realtime.ContentInputAudio {
			s.newUtterance(it)
			if c.Transcript != "" {
				s.transcribedAs(it.message, c.Transcript)
			}
			return
		}
	}
	m := s.transcript.newMessage(it, thread.RoleUser, thread.SourceText)
	m.setText(0, raw.Text())
	m.meta.Status = thread.StatusCompleted
	s.transcript.write(m)
}

// newUtterance makes the message of an utterance. Its transcription comes later.
func (s *State) newUtterance(it *item) {
	if it.message != nil {
		return
	}
	m := s.transcript.newMessage(it, thread.RoleUser, thread.SourceVoice)
	s.awaitTranscription(m)
	s.record.Turns++
	s.transcript.write(m)
}

// awaitTranscription starts waiting for the transcription of an utterance, anew with each part of it: parts may come
// while the user is still speaking.
func (s *State) awaitTranscription(m *message) {
	if m.open() && m.role == thread.RoleUser {
		m.transcriptionBy = s.now.Add(transcriptionTimeout)
	}
}

// transcribedAs completes an utterance, even one whose transcription was given up.
func (s *State) transcribedAs(m *message, text string) {
	if m == nil || m.role != thread.RoleUser || m.meta.Status == thread.StatusCompleted {
		return
	}
	m.texts = []growingText{newGrowingText("")}
	m.setText(0, strings.TrimSpace(text))
	m.transcriptionBy = time.Time{}
	m.meta.Status = thread.StatusCompleted
	s.transcript.write(m)
	if m.text() != "" {
		s.limiter.active()
	}
}

// userMessage finds the message of a transcription event. For an utterance that was never announced
// it makes one.
func (s *State) userMessage(itemID string) *message {
	if itemID == "" {
		return nil
	}
	it := s.transcript.item(itemID)
	if it.seeded {
		return nil
	}
	s.newUtterance(it)
	return it.message
}

// outputDone takes a finished item of a response; r is nil if it is unknown. done means that the
// item is complete although it does not say so.
func (s *State) outputDone(raw *realtime.Item, r *response, done bool) {
	if raw.ID == "" {
		return
	}
	it := s.transcript.item(raw.ID)
	if it.seeded {
		return
	}
	it.know(*raw)
	completed := raw.Status == realtime.ResponseCompleted || (done && raw.Status == "")
	switch {
	case raw.Type == realtime.ItemFunctionCall && completed:
		s.tools.called(it, raw, r)
	case raw.Type == realtime.ItemMessage && raw.Role == string(thread.RoleAssistant):
		m := s.answers.message(it, responseID(r))
		if m.takes(m.text(), raw.Text()) {
			m.texts = []growingText{newGrowingText("")}
			m.setText(0, raw.Text())
			s.playback.updateHeardText(m)
			if !m.open() {
				s.transcript.write(m)
			}
		}
		if completed {
			s.transcript.closeMessage(m, thread.StatusCompleted)
		}
	}
}

// cuts are the words for what cuts an answer short, as in the metadata of typed ones, by the upstream's.
var cuts = map[string]json.RawMessage{"max_output_tokens": json.RawMessage(`"length"`), "content_filter": json.RawMessage(`"filter"`)}

// closeMessages ends what a response has left open.
func (s *State) closeMessages(r *response, done *realtime.Response) {
	cut := cuts[done.StatusDetails.Reason]
	for i, m := range r.messages {
		changed := false
		if i == 0 && done.Usage != nil && len(done.Usage.Raw) > 0 {
			m.meta.Usage, changed = done.Usage.Raw, true
		}
		if i == len(r.messages)-1 && cut != nil {
			m.meta.Extra, changed = map[string]json.RawMessage{thread.MetadataFinish: cut}, true
		}
		if !m.open() {
			if changed {
				s.transcript.write(m)
			}
			s.transcript.writeRest(m)
			continue
		}
		switch done.Status {
		case realtime.ResponseCancelled:
			s.playback.interrupt(m, s.playback.played(m))
		case realtime.ResponseFailed:
			s.transcript.closeMessage(m, thread.StatusFailed)
		default:
			s.transcript.closeMessage(m, thread.StatusCompleted)
		}
	}
}

// deleteItem removes an item from the model's conversation.
func (s *State) deleteItem(it *item) {
	it.forgotten = true
	if it.gen == s.up.gen {
		s.up.send(realtime.ItemDelete(s.up.eventID(sentEvent{}), s.up.names.theirs(it.id)))
	}
}
