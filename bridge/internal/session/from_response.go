package session

import (
	"time"

	"voicebridge/realtime"
)

// outputEvent takes an upstream event about the model's side.
func (s *State) outputEvent(ev realtime.Event) {
	s.answers.keepAlive()
	switch ev.Type {
	case realtime.TypeResponseCreated:
		if r, err := realtime.DecodeResponse(ev.Response); err == nil && r.ID != "" {
			if s.answers.began(r.ID) && s.Waiting() {
				s.stopUnheard(r.ID, "")
			}
		}
	case realtime.TypeResponseDone:
		s.responseDone(ev)
	case realtime.TypeOutputItemAdded, realtime.TypeOutputItemDone:
		s.outputItem(ev)
	case realtime.TypeOutputTextDelta, realtime.TypeTextDeltaBeta:
		s.moreText(ev, false)
	case realtime.TypeAudioTranscriptDelta, realtime.TypeAudioTranscriptDeltaOld:
		s.moreText(ev, true)
	case realtime.TypeOutputTextDone, realtime.TypeTextDoneBeta:
		s.wholeText(ev, ev.Text, false)
	case realtime.TypeAudioTranscriptDone, realtime.TypeAudioTranscriptDoneOld:
		s.wholeText(ev, ev.Transcript, true)
	case realtime.TypeOutputBufferStarted:
		s.playback.audioStarted(ev.ResponseID)
		if s.Waiting() { // it was cancelled too late
			s.up.clearAudio()
		}
	case realtime.TypeOutputBufferStopped:
		s.playback.audioStopped(ev.ResponseID)
	case realtime.TypeOutputBufferCleared:
		s.playback.audioCleared(ev.ResponseID)
	}
}

// responseDone takes response.done.
func (s *State) responseDone(ev realtime.Event) {
	done, err := realtime.DecodeResponse(ev.Response)
	if err != nil || done.ID == "" {
		if s.answers.active != "" {
			s.responseLost() // it can only be that one
		}
		return
	}
	if r := s.answers.of(done.ID); !r.done {
		s.endResponse(r, &done)
	}
}

// endResponse ends a response: everything has been generated, though not yet heard.
func (s *State) endResponse(r *response, done *realtime.Response) {
	if !r.created {
		s.answers.unannounced()
	}
	for i := range done.Output {
		s.outputDone(&done.Output[i], r, done.Status == realtime.ResponseCompleted)
	}
	s.answers.over(r)
	s.answers.awaitClientCreate(s.tools.onItsWay())
	s.closeMessages(r, done)
	s.answers.close(r, done)
	s.answers.handOn(r)
	s.limiter.active()
	if s.limiter.charge(r.record.CostUSD) {
		s.end(EndBudget)
	}
}

// outputItem takes response.output_item.added and response.output_item.done.
func (s *State) outputItem(ev realtime.Event) {
	raw, err := realtime.DecodeItem(ev.Item)
	if err != nil || raw.ID == "" {
		return
	}
	r := s.answers.of(ev.ResponseID)
	if ev.Type == realtime.TypeOutputItemDone {
		s.outputDone(&raw, r, false)
		return
	}
	it := s.transcript.item(raw.ID)
	it.know(raw)
	if raw.Type == realtime.ItemMessage && !it.seeded {
		// Written with the first words or once its place is known.
		s.answers.message(it, ev.ResponseID)
	}
}

// moreText takes a piece of a content part; spoken means that it is the transcript of audio.
func (s *State) moreText(ev realtime.Event, spoken bool) {
	m := s.answers.messageOf(&ev)
	if m == nil {
		return
	}
	s.firstText(m)
	if !m.grows() || ev.Delta == "" {
		return
	}
	m.comes(spoken)
	s.transcript.grow(m, ev.ContentIndex, ev.Delta)
	s.playback.updateHeardText(m)
	if spoken {
		s.playback.firstWords(m.response)
	}
}

// wholeText takes the complete text of a content part; spoken is as for moreText.
func (s *State) wholeText(ev realtime.Event, text string, spoken bool) {
	m := s.answers.messageOf(&ev)
	if m == nil || !m.takes(m.at(ev.ContentIndex), text) {
		return
	}
	m.comes(spoken)
	if m.open() && m.at(ev.ContentIndex) == text {
		s.transcript.flush(m) // saved in pieces, and whole once it is closed
		return
	}
	m.setText(ev.ContentIndex, text)
	s.playback.updateHeardText(m)
	s.transcript.write(m)
}

// firstText records when a response's first words came.
func (s *State) firstText(m *message) {
	r := m.response
	if r == nil || r.asked.IsZero() || r.record.FirstTokenMS != nil {
		return
	}
	ms := s.now.Sub(r.asked).Milliseconds()
	r.record.FirstTokenMS = &ms
}

// responseLost ends a response that stalled, or whose end could not be read.
func (s *State) responseLost() {
	r := s.answers.of("")
	if r == nil {
		s.answers.activeBy = time.Time{}
		return
	}
	s.endResponse(r, &realtime.Response{ID: r.id, Status: realtime.ResponseFailed, StatusDetails: realtime.StatusDetails{Reason: "response_timeout"}})
	s.answers.tellDone(r)
}
