package bridge

import (
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
)

// itemAdded takes conversation.item.added (and created, its beta name) and
// returns what the browser sees of it.
func (s *state) itemAdded(ev realtime.Event) []byte {
	raw, err := realtime.DecodeItem(ev.Item)
	if err != nil || raw.ID == "" {
		return ev.Raw
	}
	it := s.script.item(raw.ID)
	if it.seeded {
		return nil
	}
	it.link(&ev)
	s.turns.acked(it.id)
	it.know(raw)
	switch {
	case raw.Type != realtime.ItemMessage:
	case raw.Role == string(persistence.RoleUser):
		s.userItem(it, raw)
	case raw.Role == string(persistence.RoleAssistant):
		m := s.assistantMessage(it, "")
		if !m.placed {
			s.write(m)
		}
	}
	return ev.Raw
}

// itemDone takes conversation.item.done.
func (s *state) itemDone(ev realtime.Event) []byte {
	visible := s.itemAdded(ev)
	if raw, err := realtime.DecodeItem(ev.Item); err == nil && visible != nil {
		s.outputDone(&raw, nil, false)
	}
	return visible
}

// know keeps what is said of the item.
func (it *item) know(raw realtime.Item) {
	if len(raw.Content) == 0 {
		raw.Content = it.raw.Content
	}
	it.raw = raw
}

// userItem takes an item of the user: spoken, or typed by way of this call.
func (s *state) userItem(it *item, raw realtime.Item) {
	if m := it.message; m != nil {
		if !m.placed {
			s.write(m) // typed: now the upstream has it, in its place
		}
		return
	}
	for _, c := range raw.Content {
		if c.Type == realtime.ContentInputAudio {
			s.spokenTurn(it)
			if c.Transcript != "" {
				s.words(it.message, c.Transcript)
			}
			return
		}
	}
	m := s.newMessage(it, persistence.RoleUser, persistence.SourceText)
	m.setText(0, raw.Text())
	m.meta.Status = persistence.StatusCompleted
	s.write(m)
}

// spokenTurn makes the message of what the user has said. Its words come later.
func (s *state) spokenTurn(it *item) {
	if it.message != nil {
		return
	}
	m := s.newMessage(it, persistence.RoleUser, persistence.SourceVoice)
	s.awaitWords(m)
	s.record.Turns++
	s.write(m)
}

// awaitWords waits for the words of a spoken turn from now on. Some of them may
// come while the user still speaks.
func (s *state) awaitWords(m *message) {
	if m.open() && m.role == persistence.RoleUser {
		m.wordsBy = s.now.Add(transcriptTimeout)
	}
}

// words completes a spoken turn, also one that was given up.
func (s *state) words(m *message, text string) {
	if m == nil || m.role != persistence.RoleUser || m.meta.Status == persistence.StatusCompleted {
		return
	}
	m.texts = []string{""}
	m.setText(0, strings.TrimSpace(text))
	m.wordsBy = time.Time{}
	m.meta.Status = persistence.StatusCompleted
	s.write(m)
}

// userMessage finds the message of a transcription event. A turn that was never
// announced is made.
func (s *state) userMessage(itemID string) *message {
	if itemID == "" {
		return nil
	}
	it := s.script.item(itemID)
	if it.seeded {
		return nil
	}
	s.spokenTurn(it)
	return it.message
}

// assistantMessage finds or makes the message of an assistant's item.
func (s *state) assistantMessage(it *item, responseID string) *message {
	if it.message != nil {
		return it.message
	}
	m := s.newMessage(it, persistence.RoleAssistant, persistence.SourceVoice)
	if r := s.responseOf(responseID); r != nil {
		m.response = r
		r.messages = append(r.messages, m)
		if r.record.MessageID == "" {
			r.record.MessageID = m.id
		}
	}
	return m
}

// itemMessage finds the message of an event that belongs to an assistant's item.
func (s *state) itemMessage(ev *realtime.Event) *message {
	if ev.ItemID == "" {
		return nil
	}
	it := s.script.item(ev.ItemID)
	if it.seeded || (it.raw.Type != "" && it.raw.Type != realtime.ItemMessage) {
		return nil
	}
	return s.assistantMessage(it, ev.ResponseID)
}

// outputDone takes a finished item of a response, r is nil where it is not known.
// done says that the item can be taken as completed although it does not say so.
func (s *state) outputDone(raw *realtime.Item, r *response, done bool) {
	if raw.ID == "" {
		return
	}
	it := s.script.item(raw.ID)
	if it.seeded {
		return
	}
	it.know(*raw)
	completed := raw.Status == realtime.ResponseCompleted || (done && raw.Status == "")
	switch {
	case raw.Type == realtime.ItemFunctionCall && completed:
		s.functionCall(it, raw, r)
	case raw.Type == realtime.ItemMessage && raw.Role == string(persistence.RoleAssistant):
		id := ""
		if r != nil {
			id = r.id
		}
		m := s.assistantMessage(it, id)
		if m.takes(m.text(), raw.Text()) {
			m.texts = []string{""}
			m.setText(0, raw.Text())
			s.reheard(m)
			if !m.open() {
				s.write(m)
			}
		}
		if completed {
			s.closeMessage(m, persistence.StatusCompleted)
		}
	}
}

// closeMessages ends what a response has left open.
func (s *state) closeMessages(r *response, done *realtime.Response) {
	for _, m := range r.messages {
		if m == r.messages[0] && done.Usage != nil && len(done.Usage.Raw) > 0 {
			m.meta.Usage = done.Usage.Raw
			if !m.open() {
				s.write(m)
			}
		}
		if !m.open() {
			s.writeRest(m)
			continue
		}
		switch done.Status {
		case realtime.ResponseCancelled:
			s.interrupt(m, s.spoken.heard(s.now, m))
		case realtime.ResponseFailed:
			s.closeMessage(m, persistence.StatusFailed)
		default:
			s.closeMessage(m, persistence.StatusCompleted)
		}
	}
}
