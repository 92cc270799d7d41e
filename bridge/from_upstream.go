package bridge

import (
	"log/slog"
	"strings"

	"voicebridge/realtime"
)

// upstream takes one event of the upstream. It goes to the browser as it came,
// unless a case says otherwise.
func (s *state) upstream(data []byte) {
	ev, err := realtime.Decode(data)
	if err != nil {
		s.note(slog.LevelWarn, "upstream event dropped", "error", err, "bytes", len(data))
		return
	}
	var visible []byte
	if ev.Malformed != nil {
		s.note(slog.LevelWarn, "upstream event not understood", "type", ev.Type, "error", ev.Malformed)
		visible = s.malformed(ev)
	} else {
		visible = s.event(ev)
	}
	if visible != nil && s.phase != ended {
		s.do(toBrowser{data: visible, draft: strings.HasSuffix(ev.Type, ".delta")})
	}
}

// malformed returns what the browser sees of an event that cannot be read. It
// sees no more than of one that can.
func (s *state) malformed(ev realtime.Event) []byte {
	switch ev.Type {
	case realtime.TypeItemAdded, realtime.TypeItemCreatedBeta, realtime.TypeItemDone, // perhaps of a replayed item
		realtime.TypeItemRetrieved, realtime.TypeOutputAudioDelta:
		return nil
	}
	if strings.HasPrefix(ev.Type, "session.") {
		return s.redact(ev)
	}
	return ev.Raw
}

// event applies an event and returns what the browser sees of it, nil for
// nothing.
func (s *state) event(ev realtime.Event) []byte {
	switch ev.Type {
	case realtime.TypeSessionCreated:
		s.opened()
		return s.redact(ev)
	case realtime.TypeSessionUpdated:
		return s.updated(ev)
	case realtime.TypeError:
		return s.upstreamError(ev)
	case realtime.TypeItemAdded, realtime.TypeItemCreatedBeta:
		return s.itemAdded(ev)
	case realtime.TypeItemDone:
		return s.itemDone(ev)
	case realtime.TypeItemDeleted:
		if it := s.script.items[ev.ItemID]; it != nil && it.forgotten {
			return nil
		}
	case realtime.TypeItemRetrieved, realtime.TypeOutputAudioDelta:
		return nil // both hold audio, and nobody here has asked for it
	}
	switch {
	case strings.HasPrefix(ev.Type, "input_audio_buffer."), strings.HasPrefix(ev.Type, "conversation.item."):
		s.inputEvent(ev)
	default:
		s.outputEvent(ev)
	}
	return ev.Raw
}

// inputEvent takes what the upstream says of the user's side.
func (s *state) inputEvent(ev realtime.Event) {
	q := &s.turns
	switch ev.Type {
	case realtime.TypeInputSpeechStarted:
		q.speechTill, q.clientAsks = s.now.Add(speechTimeout), false
	case realtime.TypeInputSpeechStopped:
		s.spoken.asked = s.now
	case realtime.TypeInputCommitted:
		if s.spoken.asked.IsZero() {
			s.spoken.asked = s.now
		}
		s.committed(ev)
	case realtime.TypeInputCleared:
		q.speechTill = s.now
	case realtime.TypeTranscriptionDelta:
		if m := s.userMessage(ev.ItemID); m != nil {
			s.awaitWords(m)
			s.grow(m, ev.ContentIndex, ev.Delta)
		}
	case realtime.TypeTranscriptionCompleted:
		s.words(s.userMessage(ev.ItemID), ev.Transcript)
	case realtime.TypeTranscriptionFailed:
		s.wordsFailed(ev)
	case realtime.TypeItemTruncated:
		s.truncated(ev)
	}
}

// committed takes the end of a spoken turn.
func (s *state) committed(ev realtime.Event) {
	q := &s.turns
	q.speechTill = s.now // over, unless the user speaks again
	if !s.settings.noReply {
		q.replyTill = s.now.Add(autoResponseWait)
	}
	if ev.ItemID == "" {
		return
	}
	it := s.script.item(ev.ItemID)
	it.link(&ev)
	if !it.seeded {
		s.spokenTurn(it)
		s.awaitWords(it.message)
	}
}

func (s *state) wordsFailed(ev realtime.Event) {
	m := s.userMessage(ev.ItemID)
	if m == nil {
		return
	}
	if ev.Error != nil {
		s.note(slog.LevelInfo, "transcription failed", "code", ev.Error.Code, "error", ev.Error.Message)
	}
	s.closeMessage(m, "failed")
}

// outputEvent takes what the upstream says of the model's side.
func (s *state) outputEvent(ev realtime.Event) {
	switch ev.Type {
	case realtime.TypeResponseCreated:
		s.responseCreated(ev)
	case realtime.TypeResponseDone:
		s.responseDone(ev)
	case realtime.TypeOutputItemAdded, realtime.TypeOutputItemDone:
		s.outputItem(ev)
	case realtime.TypeOutputTextDelta, realtime.TypeTextDeltaBeta,
		realtime.TypeAudioTranscriptDelta, realtime.TypeAudioTranscriptDeltaOld:
		if m := s.itemMessage(&ev); m != nil {
			s.firstText(m)
			s.grow(m, ev.ContentIndex, ev.Delta)
		}
	case realtime.TypeOutputTextDone, realtime.TypeTextDoneBeta:
		s.wholeText(ev, ev.Text)
	case realtime.TypeAudioTranscriptDone, realtime.TypeAudioTranscriptDoneOld:
		s.wholeText(ev, ev.Transcript)
	case realtime.TypeOutputBufferStarted:
		s.playingStarted(ev)
	case realtime.TypeOutputBufferStopped:
		s.playingStopped(ev)
	case realtime.TypeOutputBufferCleared:
		s.playingCleared(ev)
	}
}

// outputItem takes an item of a response that begins or is finished.
func (s *state) outputItem(ev realtime.Event) {
	raw, err := realtime.DecodeItem(ev.Item)
	if err != nil || raw.ID == "" {
		return
	}
	r := s.responseOf(ev.ResponseID)
	if ev.Type == realtime.TypeOutputItemDone {
		s.outputDone(&raw, r, false)
		return
	}
	it := s.script.item(raw.ID)
	it.know(raw)
	if raw.Type == realtime.ItemMessage && !it.seeded {
		// Written with the first words or when its place is known.
		s.assistantMessage(it, ev.ResponseID)
	}
}

// wholeText takes the text of a content that is finished.
func (s *state) wholeText(ev realtime.Event, text string) {
	m := s.itemMessage(&ev)
	if m == nil || !m.takes(m.at(ev.ContentIndex), text) {
		return
	}
	m.setText(ev.ContentIndex, text)
	s.reheard(m)
	s.write(m)
}

// firstText notes when a response's first words came.
func (s *state) firstText(m *message) {
	r := m.response
	if r == nil || r.asked.IsZero() || r.record.FirstTokenMS != nil {
		return
	}
	ms := s.now.Sub(r.asked).Milliseconds()
	r.record.FirstTokenMS = &ms
}

// upstreamError takes an error event. Errors of the bridge's own events are the
// bridge's business; those of events that it sent for the browser name the
// browser's event.
func (s *state) upstreamError(ev realtime.Event) []byte {
	e := ev.Error
	if e == nil {
		return ev.Raw
	}
	switch own, known := s.sent[e.EventID]; {
	case e.Code == "session_expired":
		s.do(toBrowser{data: ev.Raw})
		s.lost(EndSessionExpired)
		return nil
	case e.Fatal():
		s.note(slog.LevelError, "upstream refused to go on", "code", e.Code, "error", e.Message)
		s.tellError(*e, own.clientOf())
		s.lost(EndUpstreamRefused)
		return nil
	case known:
		s.ownError(own, e)
		return nil
	case strings.HasPrefix(e.EventID, ownPrefix):
		return nil
	case e.EventID == "" && e.Code == codeActiveResponse && s.turns.create != nil:
		s.createRefused("", e)
		return nil
	case e.EventID == "" && s.settings.inFlight != nil && strings.HasPrefix(e.Param, "session"):
		s.updateRefused(e)
		return nil
	default:
		return ev.Raw
	}
}

// clientOf is the browser's event that an event was sent for.
func (e sentEvent) clientOf() string {
	if e.forClient {
		return e.clientID
	}
	return ""
}

// ownError takes the error of an event that the bridge has sent.
func (s *state) ownError(own sentEvent, e *realtime.Error) {
	switch own.kind {
	case sentSession:
		s.updateRefused(e)
	case sentCreate:
		s.createRefused(e.EventID, e)
	case sentText:
		s.textRefused(own, e)
	case sentOutput:
		s.note(slog.LevelWarn, "tool output refused by the upstream", "code", e.Code, "error", e.Message)
		s.turns.drop(own.itemID)
	case sentSeed:
		s.note(slog.LevelWarn, "replayed item refused by the upstream", "code", e.Code, "param", e.Param, "error", e.Message)
	case sentOther:
		if own.forClient {
			s.tellError(*e, own.clientID)
		}
	}
}

// tellError passes an upstream's error on, as the answer to the browser's event.
func (s *state) tellError(e realtime.Error, clientID string) {
	e.EventID = clientID
	s.do(toBrowser{data: realtime.ErrorEvent(s.ownEventID(), e)})
}
