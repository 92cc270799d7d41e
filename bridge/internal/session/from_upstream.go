package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// upstreamEvent takes one event of an upstream session. Events of the active session go to the
// browser unchanged, unless a case says otherwise; those of the next one stay here.
func (s *State) upstreamEvent(in UpstreamEvent) {
	u := s.renewal.session(in.Gen)
	if u == nil || u.gone {
		return
	}
	u.wordBy = time.Time{}
	ev, err := readUpstream(in.Data)
	if err != nil {
		s.log(slog.LevelWarn, "upstream event dropped", "error", err, "bytes", len(in.Data))
		return
	}
	if ev.Malformed != nil {
		s.log(slog.LevelWarn, "upstream event not understood", "type", ev.Type, "error", ev.Malformed)
	}
	u.names.translate(s.known, &ev)
	ev.said, ev.sound = in.Said, in.Sound
	if ev.Type == realtime.TypeSessionUsage && u.can.Duplex {
		s.metered(u, &ev)
		return
	}
	if u != s.up {
		s.giveUp(s.renewal.event(&ev))
		return
	}
	s.transcript.link(&ev)
	if !s.speech.soFar(&ev) {
		return
	}
	s.settings.takeOver(&ev)
	again := ev.Type == realtime.TypeSessionCreated && s.view.created != nil && u.gen > 1 // after one that has refused
	views := s.view.ofEach(&ev)                                                           // as things were before
	who := s.event(&ev)
	if who == nobody || again || s.phase == ended {
		return
	}
	if who != everybody {
		views[0] = nil
	}
	s.show(&ev, views)
	if ev.Type == realtime.TypeSessionCreated {
		s.welcomeSidebands()
	}
}

// show sends the clients what each may see of an event.
func (s *State) show(ev *event, views [][]byte) {
	for i, data := range views {
		t := s.clients[i]
		s.sendTo(t.side, data, isDraft(ev))
		s.view.note(t, ev, data)
	}
}

// errForged is about an event of an upstream that clients would take for the bridge's.
var errForged = errors.New("its type is one of the bridge's own")

// readUpstream reads an event of an upstream. What looks like a key in the words about a failure is cut out.
func readUpstream(data []byte) (event, error) {
	ev, err := readEvent(data)
	if err == nil && strings.HasPrefix(ev.Type, "bridge.") {
		err = errForged
	}
	fails := ev.Error != nil || strings.HasSuffix(ev.Type, ".failed") || ev.response.Status == realtime.ResponseFailed
	if err != nil || !fails && ev.Type != realtime.TypeError {
		return ev, err
	}
	if masked := realtime.MaskKeys(string(data)); masked != string(data) {
		return readEvent([]byte(masked))
	}
	return ev, nil
}

// event applies an event, and reports who may see it.
func (s *State) event(ev *event) audience {
	it := s.transcript.itemOf(ev)
	if ev.sound > 0 && it != nil && it.message != nil {
		s.transcript.sounds(it.message, ev.sound)
	}
	switch {
	case ev.Malformed != nil:
		if ev.Type == realtime.TypeResponseDone { // the call waits for it, and the browser is told that it has failed
			s.responseDone(ev)
		}
	case ev.Type == realtime.TypeSessionCreated:
		if s.renewal.opened(s.up, ev) {
			s.settings.configure()
		}
	case ev.Type == realtime.TypeSessionUpdated:
		return s.updated(ev)
	case ev.Type == realtime.TypeSessionExpiring:
		s.renewal.hasten()
		return nobody
	case ev.Type == realtime.TypeSpeech:
		s.spoken(ev)
		return nobody
	case ev.Type == realtime.TypeError:
		return seen(s.upstreamError(ev))
	case ev.Type == realtime.TypeItemAdded, ev.Type == realtime.TypeItemCreatedBeta, ev.Type == realtime.TypeItemDone:
		return seen(s.itemKnown(ev, it))
	case ev.Type == realtime.TypeItemDeleted:
		return seen(it == nil || !it.forgotten)
	case ev.Type == realtime.TypeItemTruncated:
		return seen(s.playback.truncated(ev, it))
	case strings.HasPrefix(ev.Type, "input_audio_buffer."), strings.HasPrefix(ev.Type, "conversation.item."):
		s.speech.event(ev, it)
	default:
		s.outputEvent(ev, it)
	}
	return everybody
}

// updated takes session.updated. The browser sees those that it has asked for, the sidebands also those of others.
func (s *State) updated(ev *event) (who audience) {
	who = s.settings.updated(ev)
	s.transcript.speaks(ev.Session)
	if s.settings.pushToTalk {
		s.answers.speechTill = time.Time{} // nobody says when it ends
	}
	if s.phase == starting && s.up.stage == configuring && s.settings.inFlight == nil {
		s.ready()
	}
	s.settings.sendNext()
	return who
}

// ready begins the live part of a call: the first session is configured.
func (s *State) ready() {
	s.phase, s.up.stage = live, ready
	s.up.began = s.now
	if e := s.complaint; e != nil {
		s.complaint = nil
		s.sendError(*e)
	}
	s.record.ReadyAt = new(s.now)
	s.record.Replayed = int64(len(s.History))
	s.recording.begin()
	if !s.away {
		s.do(Gate{Open: true})
	}
	s.saveCall()
	s.notify(s.readyEvent())
	s.limiter.active()
	s.do(Tell{Kind: "call_started", Data: callEvent{CallID: s.CallID}})
	s.flushBacklog()
	s.answers.greet(s.browserLeg.connected)
}

// itemKnown takes what the upstream says about an item, and reports whether the browser sees it.
func (s *State) itemKnown(ev *event, it *item) bool {
	raw := &ev.item
	if raw.ID == "" {
		return true
	}
	it.announced = true
	if it.seeded {
		if s.phase == starting {
			s.up.replayed = it.id
		}
		if s.up.forgot && !it.forgotten {
			s.transcript.forgetItem(it)
		}
		return false
	}
	s.answers.acked(it.id)
	switch {
	case raw.Type != realtime.ItemMessage:
	case it.message != nil && it.message.meta.Source == thread.SourceAPI:
		it.message.changed = it.message.changed || !it.message.placed
	case raw.Role == string(thread.RoleUser):
		s.speech.item(it, raw)
	case raw.Role == string(thread.RoleAssistant):
		if m := s.answers.message(it, nil); !m.placed {
			m.changed = true
		}
	}
	if ev.Type == realtime.TypeItemDone {
		s.outputDone(it, raw, nil, false)
	}
	return true
}

// upstreamError takes an error event. Errors about the bridge's own events stay here; those about
// events sent for the browser name the browser's event.
func (s *State) upstreamError(ev *event) (visible bool) {
	e := ev.Error
	if e == nil { // what it says may stand beside its type
		e = new(realtime.Error)
		_ = json.Unmarshal(ev.Raw, e) // else it says nothing
		e.EventID = ""
	}
	own, ours := s.up.caused(e, ev.EventID)
	switch {
	case e.Code == codeSessionExpired:
		s.lost(EndSessionExpired)
	case e.Code == codeSessionClosed:
		s.detail = e.Message
		s.giveUp(EndUpstreamEndedIt)
	case e.Fatal():
		s.log(slog.LevelError, "upstream refused to go on", "code", e.Code, "error", e.Message)
		if s.startOver(EndUpstreamRefused) {
			break
		}
		if s.Others > 0 && s.phase == live {
			s.renewal.refused = s.record.Upstream
			s.lost(EndUpstreamRefused)
			break
		}
		s.sendError(*e, own.clientOf())
		s.giveUp(EndUpstreamRefused)
	case ours:
		s.ownError(own, e)
	case strings.HasPrefix(e.EventID, ownPrefix):
		if strings.HasPrefix(e.EventID, ReplayPrefix) {
			s.log(slog.LevelWarn, "replayed item refused by the upstream", "code", e.Code, "param", e.Param,
				"error", e.Message)
		}
	case e.EventID == "" && e.Code == codeActiveResponse && s.answers.create != nil:
		s.answers.createRefused("", e)
	case e.EventID == "" && s.settings.inFlight != nil && strings.HasPrefix(e.Param, "session"):
		s.settings.refused(e)
	case s.phase == starting && s.overs < s.Others: // it may be why the upstream hangs up next
		s.log(slog.LevelWarn, "upstream complains", "code", e.Code, "param", e.Param, "error", e.Message)
		s.complaint = e
	default:
		return true
	}
	return false
}

// ownError takes the error about one of the bridge's own events.
func (s *State) ownError(own sentEvent, e *realtime.Error) {
	switch own.kind {
	case sentSession:
		s.settings.refused(e)
	case sentCreate:
		s.answers.createRefused(e.EventID, e)
	case sentText:
		s.texts.refused(own, e)
	case sentOutput:
		s.log(slog.LevelWarn, "tool output refused by the upstream", "code", e.Code, "error", e.Message)
		s.answers.drop(own.itemID)
	case sentTruncate, sentCancel, sentDelete, sentOther:
		it := s.transcript.items[own.itemID]
		switch {
		case !own.forClient:
		case own.kind == sentTruncate && it != nil && it.message != nil && it.message.exact: // it was cut shorter already
			s.tellTruncated(it, 0)
		default:
			s.sendError(*e, own.clientID)
		}
	}
}

// outputEvent takes an upstream event about the model's side.
func (s *State) outputEvent(ev *event, it *item) {
	s.answers.keepAlive()
	switch ev.Type {
	case realtime.TypeResponseCreated:
		if id := ev.response.ID; id != "" && s.answers.began(&ev.response) && s.Waiting() {
			s.playback.stopUnheard(id, "")
		}
	case realtime.TypeResponseDone:
		s.responseDone(ev)
	case realtime.TypeOutputItemAdded, realtime.TypeOutputItemDone:
		s.outputItem(ev, it)
	case realtime.TypeOutputTextDelta, realtime.TypeTextDeltaBeta,
		realtime.TypeAudioTranscriptDelta, realtime.TypeAudioTranscriptDeltaOld,
		realtime.TypeOutputTextDone, realtime.TypeTextDoneBeta,
		realtime.TypeAudioTranscriptDone, realtime.TypeAudioTranscriptDoneOld, realtime.TypeContentPartDone:
		if m := s.answers.messageOf(ev, it); m != nil {
			s.playback.words(m, ev)
		}
	case realtime.TypeFunctionArgumentsDone:
		s.argumentsDone(ev)
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

// metered takes how long a session has been billed so far.
func (s *State) metered(u *upstream, ev *event) {
	told, err := realtime.DecodeUsage(ev.Usage)
	usage, less := s.believed(told, u.made)
	if err != nil || usage.Seconds <= u.seconds {
		return
	}
	rec := u.sessionRecord(&usage)
	rec.Estimated = less
	u.seconds = usage.Seconds
	more := s.limiter.more(u.gen, rec.CostUSD)
	s.save(persistence.PutResponse{Response: rec})
	s.notify(usageEvent{Type: "bridge.usage", ResponseID: rec.UpstreamID, Usage: usage.Raw, CostUSD: more})
	s.limiter.charge(more)
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
	completed := done.Status == realtime.ResponseCompleted
	for i := range done.Output {
		if raw := &done.Output[i]; raw.ID != "" {
			s.outputDone(s.transcript.described(raw), raw, r, completed)
		}
	}
	for i := range r.calls {
		s.unlisted(&r.calls[i], r, completed)
	}
	s.tools.refuseEarly()
	s.answers.over(r)
	s.tools.settle()
	s.playback.closeMessages(r, done)
	cost := s.answers.close(r, done)
	s.answers.handOn(r)
	s.limiter.active()
	s.limiter.charge(cost)
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
		s.answers.message(it, r)
	}
}

// argumentsDone takes a call whose arguments are complete, and which may stand nowhere else. The arguments of an
// interrupted response end as well, so the call runs once its response is completed.
func (s *State) argumentsDone(ev *event) {
	call := realtime.Item{
		ID: cmp.Or(ev.ItemID, ev.CallID), Type: realtime.ItemFunctionCall, CallID: ev.CallID, Name: ev.Name,
		Arguments: outputText(realtime.Member(ev.Raw, "arguments")),
	}
	r := s.answers.of(ev.ResponseID)
	if call.ID == "" || r == nil {
		return
	}
	begun := s.transcript.item(call.ID).raw
	call.CallID, call.Name = cmp.Or(call.CallID, begun.CallID), cmp.Or(call.Name, begun.Name)
	s.transcript.described(&call)
	switch {
	case r.done:
		s.unlisted(&call, r, r.record.Status == realtime.ResponseCompleted)
	case len(r.calls) <= toolkit.MaxCalls:
		r.calls = append(r.calls, call)
	}
}

// unlisted takes a call of a response that ended, completed or not, and tells the client that is to run it: clients wait
// for the item.
func (s *State) unlisted(call *realtime.Item, r *response, completed bool) {
	if !completed || s.tools.byID[call.CallID] != nil {
		return
	}
	call.Status = realtime.ResponseCompleted
	s.outputDone(s.transcript.described(call), call, r, true)
	ev, err := readEvent(encode(map[string]any{
		"type": realtime.TypeOutputItemDone, "event_id": s.ownEventID(), "response_id": r.id, "output_index": 0,
		"item": call,
	}))
	if err == nil {
		s.show(&ev, s.view.ofEach(&ev))
	}
}

// responseLost ends a response that stalled, or whose end could not be read.
func (s *State) responseLost() {
	r := s.answers.of("")
	if r == nil {
		s.answers.activeBy = time.Time{}
		return
	}
	s.endResponse(r, &realtime.Response{
		ID: r.id, Status: realtime.ResponseFailed, StatusDetails: realtime.StatusDetails{Reason: "response_timeout"},
	})
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
		s.playback.finished(s.answers.message(it, r), raw.Text(), completed)
	}
}

// isDraft reports whether an event may be dropped where it is read slowly.
func isDraft(ev *event) bool { return strings.HasSuffix(ev.Type, ".delta") }
