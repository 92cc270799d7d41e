package session

import (
	"time"

	"voicebridge/realtime"
	"voicebridge/thread"
)

// outputEvent takes an upstream event about the model's side.
func (s *State) outputEvent(ev *event, it *item) {
	s.answers.keepAlive()
	switch ev.Type {
	case realtime.TypeResponseCreated:
		if id := ev.response.ID; id != "" && s.answers.began(id) && s.Waiting() {
			s.stopUnheard(id, "")
		}
	case realtime.TypeResponseDone:
		s.responseDone(ev)
	case realtime.TypeOutputItemAdded, realtime.TypeOutputItemDone:
		s.outputItem(ev, it)
	case realtime.TypeOutputTextDelta, realtime.TypeTextDeltaBeta:
		s.playback.moreText(ev, s.answers.messageOf(ev, it), false)
	case realtime.TypeAudioTranscriptDelta, realtime.TypeAudioTranscriptDeltaOld:
		s.playback.moreText(ev, s.answers.messageOf(ev, it), true)
	case realtime.TypeOutputTextDone, realtime.TypeTextDoneBeta:
		s.playback.wholeText(ev, s.answers.messageOf(ev, it), ev.Text, false)
	case realtime.TypeAudioTranscriptDone, realtime.TypeAudioTranscriptDoneOld:
		s.playback.wholeText(ev, s.answers.messageOf(ev, it), ev.Transcript, true)
	case realtime.TypeOutputBufferStarted:
		s.playback.audioStarted(ev.ResponseID)
		if s.Waiting() { // it was cancelled too late
			s.playback.clear()
		}
	case realtime.TypeOutputBufferStopped:
		s.playback.audioStopped(ev.ResponseID)
	case realtime.TypeOutputBufferCleared:
		s.playback.audioCleared(ev.ResponseID)
	}
}

// responseDone takes response.done.
func (s *State) responseDone(ev *event) {
	if ev.response.ID == "" {
		if s.answers.active != "" {
			s.responseLost() // it can only be that one
		}
		return
	}
	if r := s.answers.of(ev.response.ID); !r.done {
		s.endResponse(r, &ev.response)
	}
}

// endResponse ends a response: everything has been generated, though not yet heard.
func (s *State) endResponse(r *response, done *realtime.Response) {
	if !r.created {
		s.answers.unannounced()
	}
	for i := range done.Output {
		if raw := &done.Output[i]; raw.ID != "" {
			it := s.transcript.item(raw.ID)
			it.know(raw)
			s.outputDone(it, raw, r, done.Status == realtime.ResponseCompleted)
		}
	}
	s.answers.over(r)
	s.answers.awaitClientCreate(s.tools.onItsWay())
	s.playback.closeMessages(r, done)
	s.answers.close(r, done)
	s.answers.handOn(r)
	s.limiter.active()
	s.limiter.charge(r.record.CostUSD)
}

// outputItem takes response.output_item.added and response.output_item.done.
func (s *State) outputItem(ev *event, it *item) {
	if ev.item.ID == "" {
		return
	}
	r := s.answers.of(ev.ResponseID)
	if ev.Type == realtime.TypeOutputItemDone {
		s.outputDone(it, &ev.item, r, false)
	} else if ev.item.Type == realtime.ItemMessage && !it.seeded {
		// Written with the first words or once its place is known.
		s.answers.message(it, ev.ResponseID)
	}
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

// outputDone takes a finished item of a response; r is nil if it is unknown. done means that the
// item is complete although it does not say so.
func (s *State) outputDone(it *item, raw *realtime.Item, r *response, done bool) {
	if it.seeded {
		return
	}
	completed := raw.Status == realtime.ResponseCompleted || (done && raw.Status == "")
	switch {
	case raw.Type == realtime.ItemFunctionCall && completed:
		s.tools.called(it, raw, r)
	case raw.Type == realtime.ItemMessage && raw.Role == string(thread.RoleAssistant):
		s.playback.finished(s.answers.message(it, responseID(r)), raw.Text(), completed)
	}
}
