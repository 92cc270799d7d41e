package session

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// upstreamEvent takes one event of an upstream session. Events of the active session go to the
// browser unchanged, unless a case says otherwise; those of the next one stay here.
func (s *State) upstreamEvent(in UpstreamEvent) {
	u := s.session(in.Gen)
	if u == nil || u.gone {
		return
	}
	u.wordBy = time.Time{}
	ev, err := realtime.Decode(in.Data)
	if err != nil {
		s.log(slog.LevelWarn, "upstream event dropped", "error", err, "bytes", len(in.Data))
		return
	}
	if ev.Malformed != nil {
		s.log(slog.LevelWarn, "upstream event not understood", "type", ev.Type, "error", ev.Malformed)
	}
	if in.Place != nil {
		ev.PreviousItemID, ev.HasPrevious = in.Place.Before, in.Place.Known
	}
	ev = u.names.translate(s.known, ev)
	if u == s.next {
		s.nextEvent(ev)
		return
	}
	var visible []byte
	if ev.Malformed != nil {
		visible = s.malformed(ev)
	} else {
		visible = s.event(ev)
	}
	if visible != nil && s.phase != ended {
		s.do(ToBrowser{Data: visible, Draft: strings.HasSuffix(ev.Type, ".delta")})
	}
}

// malformed returns what the browser sees of an event with an unreadable field: no more than of a readable one. The
// event is not applied, except that the end of a response counts, since the call waits for it.
func (s *State) malformed(ev realtime.Event) []byte {
	switch ev.Type {
	case realtime.TypeItemAdded, realtime.TypeItemCreatedBeta, realtime.TypeItemDone, // perhaps for a replayed item
		realtime.TypeOutputItemAdded, realtime.TypeOutputItemDone, realtime.TypeFunctionArgumentsDelta, realtime.TypeFunctionArgumentsDone, // perhaps a server tool
		realtime.TypeItemRetrieved, realtime.TypeOutputAudioDelta, realtime.TypeOutputAudioDeltaBeta:
		return nil
	case realtime.TypeResponseDone:
		s.responseDone(ev) // the browser is told that it has failed
		return nil
	}
	if strings.HasPrefix(ev.Type, "session.") {
		return s.settings.redact(ev)
	}
	return ev.Raw
}

// event applies an event and returns what the browser sees of it, nil for nothing.
func (s *State) event(ev realtime.Event) []byte {
	switch ev.Type {
	case realtime.TypeSessionCreated:
		s.opened(ev)
		s.settings.created = s.settings.redact(ev)
		return s.settings.created
	case realtime.TypeSessionUpdated:
		return s.updated(ev)
	case realtime.TypeError:
		return s.upstreamError(ev)
	case realtime.TypeItemAdded, realtime.TypeItemCreatedBeta:
		return s.visibleIf(s.itemAdded(&ev), ev)
	case realtime.TypeItemDone:
		return s.visibleIf(s.itemDone(&ev), ev)
	case realtime.TypeItemDeleted:
		if it := s.transcript.items[ev.ItemID]; it != nil && it.forgotten {
			return nil
		}
	case realtime.TypeItemRetrieved, realtime.TypeOutputAudioDelta, realtime.TypeOutputAudioDeltaBeta:
		return nil // they contain audio, and no client asked for them
	}
	switch {
	case strings.HasPrefix(ev.Type, "input_audio_buffer."), strings.HasPrefix(ev.Type, "conversation.item."):
		s.inputEvent(ev)
	default:
		s.outputEvent(ev)
	}
	return s.withoutServerCalls(ev)
}

func (s *State) visibleIf(visible bool, ev realtime.Event) []byte {
	switch {
	case !visible:
		return nil
	case len(ev.Raw) > s.BrowserLimit && bytes.Contains(ev.Item, []byte(`"image_url"`)):
		return withoutImages(ev)
	}
	return s.withoutServerCalls(ev)
}

// withoutImages returns an event without its item's image data, which is too large for the data
// channel; the thread has it.
func withoutImages(ev realtime.Event) []byte {
	var tree map[string]json.RawMessage
	item, err := realtime.DecodeItem(ev.Item)
	if err != nil || json.Unmarshal(ev.Raw, &tree) != nil {
		return nil
	}
	for i := range item.Content {
		item.Content[i].ImageURL = ""
	}
	tree["item"] = encode(item)
	return encode(tree)
}

// updated takes session.updated.
func (s *State) updated(ev realtime.Event) []byte {
	visible, asked := s.settings.updated(ev)
	if turns := turnDetection(ev.Session); turns != nil && notNull(turns) == nil {
		s.answers.speechTill = time.Time{} // nobody says when it ends
	}
	if s.phase == starting && s.up.stage == configuring && s.settings.inFlight == nil {
		s.ready()
	}
	s.settings.sendNext()
	if !asked {
		return nil
	}
	return visible
}

// inputEvent takes an upstream event about the user's side.
func (s *State) inputEvent(ev realtime.Event) {
	q := s.answers
	switch ev.Type {
	case realtime.TypeInputSpeechStarted:
		q.speechTill, q.clientCreate = s.now.Add(speechTimeout), false
		s.playback.userSpeaks()
	case realtime.TypeInputSpeechStopped:
		q.asked, q.reached = s.now, nil
	case realtime.TypeInputCommitted:
		if q.asked.IsZero() || q.reached != nil { // nothing was recorded, or only for the turn before
			q.ask(s.now)
		}
		q.committed = s.now
		s.committed(ev)
	case realtime.TypeInputCleared:
		q.speechTill = s.now
	case realtime.TypeTranscriptionDelta:
		if m := s.userMessage(ev.ItemID); m != nil {
			s.awaitTranscription(m)
			s.transcript.grow(m, ev.ContentIndex, ev.Delta)
		}
	case realtime.TypeTranscriptionCompleted:
		m := s.userMessage(ev.ItemID)
		s.transcribedAs(m, ev.Transcript)
		s.transcribed(m, ev)
	case realtime.TypeTranscriptionFailed:
		s.transcriptionFailed(ev)
	case realtime.TypeItemTruncated:
		s.playback.truncated(&ev)
	}
}

// committed takes the end of an utterance.
func (s *State) committed(ev realtime.Event) {
	q := s.answers
	q.rounds, s.heldTill = 0, time.Time{}
	q.speechTill = s.now // over, unless the user speaks again
	if !s.settings.noReply {
		q.replyTill = s.now.Add(autoResponseWait)
	}
	if ev.ItemID == "" {
		return
	}
	it := s.transcript.item(ev.ItemID)
	it.link(&ev)
	if !it.seeded {
		s.newUtterance(it)
		s.awaitTranscription(it.message)
	}
}

// transcribed records the cost of a transcription, once. It is billed apart from responses.
func (s *State) transcribed(m *message, ev realtime.Event) {
	usage, err := realtime.DecodeUsage(ev.Usage)
	if ev.Usage == nil || err != nil || m == nil || m.billed {
		return
	}
	m.billed = true
	rec := persistence.ResponseRecord{
		ID: s.newID(), Kind: persistence.KindTranscription, CallID: s.CallID, MessageID: m.id, UpstreamID: ev.ItemID, Model: s.Session.TranscriptionModel,
		Status: realtime.ResponseCompleted, RawUsage: usage.Raw, CreatedAt: s.now, FinishedAt: new(s.now),
		Usage: thread.Usage{InputTokens: usage.InputTokens, OutputTokens: usage.OutputTokens, InputAudioTokens: usage.InputAudio},
	}
	if s.TranscriptionCost != nil {
		rec.CostUSD = s.TranscriptionCost(usage)
	}
	s.save(persistence.PutResponse{Response: rec})
	if s.limiter.charge(rec.CostUSD) {
		s.end(EndBudget)
	}
}

func (s *State) transcriptionFailed(ev realtime.Event) {
	m := s.userMessage(ev.ItemID)
	if m == nil {
		return
	}
	if ev.Error != nil {
		s.log(slog.LevelInfo, "transcription failed", "code", ev.Error.Code, "error", ev.Error.Message)
	}
	s.transcript.closeMessage(m, thread.StatusFailed)
}

// upstreamError takes an error event. Errors about the bridge's own events stay here; those about
// events sent for the browser name the browser's event.
func (s *State) upstreamError(ev realtime.Event) []byte {
	e := ev.Error
	if e == nil {
		return ev.Raw
	}
	switch own, known := s.up.sent[e.EventID]; {
	case e.Code == codeSessionExpired:
		s.lost(EndSessionExpired)
		return nil
	case e.Fatal():
		s.log(slog.LevelError, "upstream refused to go on", "code", e.Code, "error", e.Message)
		s.sendError(*e, own.clientOf())
		s.giveUp(EndUpstreamRefused)
		return nil
	case known:
		s.ownError(own, e)
		return nil
	case strings.HasPrefix(e.EventID, ownPrefix):
		if strings.HasPrefix(e.EventID, ReplayPrefix) {
			s.log(slog.LevelWarn, "replayed item refused by the upstream", "code", e.Code, "param", e.Param, "error", e.Message)
		}
		return nil
	case e.EventID == "" && e.Code == codeActiveResponse && s.answers.create != nil:
		s.answers.createRefused("", e)
		return nil
	case e.EventID == "" && s.settings.inFlight != nil && strings.HasPrefix(e.Param, "session"):
		s.settings.refused(e)
		return nil
	default:
		return ev.Raw
	}
}

// ownError takes the error about one of the bridge's own events.
func (s *State) ownError(own sentEvent, e *realtime.Error) {
	switch own.kind {
	case sentSession:
		s.settings.refused(e)
	case sentCreate:
		s.answers.createRefused(e.EventID, e)
	case sentText:
		s.textRefused(own, e)
	case sentOutput:
		s.log(slog.LevelWarn, "tool output refused by the upstream", "code", e.Code, "error", e.Message)
		s.answers.drop(own.itemID)
	case sentOther:
		if own.forClient {
			s.sendError(*e, own.clientID)
		}
	}
}
