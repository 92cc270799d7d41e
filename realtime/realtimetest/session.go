package realtimetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// StrictSession is one connection to a Strict server. One goroutine has all but what mu guards.
type StrictSession struct {
	answers

	model      string
	lives      time.Duration
	hears      func() string // the words of the next utterance
	settings   tree
	configured bool
	heard      ear
	utterance  string // the item that is being said

	mu       sync.Mutex
	received []string
	cuts     []Cut
	expired  bool
	ended    bool
	seeded   int
}

// Cut is a truncation: how much of an item was played, and how much was sent.
type Cut struct {
	Item         string
	Played, Sent time.Duration
}

// Received returns the types of the events that came, without sound.
func (s *StrictSession) Received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received)
}

// Cuts returns the truncations.
func (s *StrictSession) Cuts() []Cut {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.cuts)
}

// Seeded is how many items came before the settings.
func (s *StrictSession) Seeded() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seeded
}

// Expired reports whether the session was still in use at its end, Ended whether it is over.
func (s *StrictSession) Expired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expired
}

// Ended is described at Expired.
func (s *StrictSession) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

func (s *StrictSession) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	in := make(chan []byte)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(in)
		for {
			kind, data, err := s.conn.Read(ctx)
			if err != nil {
				return
			}
			if kind != websocket.MessageText {
				s.note("a message that is not text")
			}
			select {
			case in <- data:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		stop()
		_ = s.conn.CloseNow()
		<-read
		s.mu.Lock()
		s.ended = true
		s.mu.Unlock()
	}()
	session := tree{"id": s.id("sess"), "object": "realtime.session", "type": "realtime", "model": s.model, "instructions": "Be helpful.", "tools": []any{}}
	if s.d.Beta {
		delete(session, "type")
	}
	if s.d.limited {
		session["expires_at"] = time.Now().Add(s.lives).Unix()
	}
	s.send(ctx, "session.created", tree{"session": session})
	if s.d.cumulative {
		s.send(ctx, "ping", tree{"timestamp": 1})
	}
	end := time.NewTimer(s.lives)
	defer end.Stop()
	pace := time.NewTicker(stepSound / speed)
	defer pace.Stop()
	for {
		select {
		case data, ok := <-in:
			if !ok {
				return
			}
			s.take(ctx, data)
		case <-pace.C:
			s.step(ctx)
		case <-end.C:
			s.mu.Lock()
			s.expired = true
			s.mu.Unlock()
			s.fail(ctx, "", refusal{"session_expired", "Your session hit the maximum duration of 60 minutes.", ""})
			_ = s.conn.Close(websocket.StatusGoingAway, "session expired")
			return
		case <-ctx.Done():
			return
		}
	}
}

// take takes an event of the client.
func (s *StrictSession) take(ctx context.Context, data []byte) {
	var ev tree
	if err := json.Unmarshal(data, &ev); err != nil {
		s.note("not JSON: %.200q", data)
		s.fail(ctx, "", refusal{"invalid_event", "The event is not JSON.", ""})
		return
	}
	kind, _ := ev["type"].(string)
	eventID, _ := ev["event_id"].(string)
	if kind != "input_audio_buffer.append" {
		s.mu.Lock()
		s.received = append(s.received, kind)
		s.mu.Unlock()
	}
	if r := s.event(ctx, kind, ev); r != nil {
		s.note("session %d: %s %q: %s in %.600s", s.number, r.code, r.param, r.message, data)
		s.fail(ctx, eventID, *r)
	} else {
		s.published(FromClient, kind, data)
	}
}

// event applies an event of the client, or says why not.
func (s *StrictSession) event(ctx context.Context, kind string, ev tree) *refusal {
	fields, known := s.d.events[kind]
	if !known {
		return &refusal{"invalid_value", fmt.Sprintf("Invalid value: %q.", kind), "type"}
	}
	whole := object{"type!": text(0), "event_id": text(512)}
	maps.Copy(whole, fields)
	if r := whole.check("", ev); r != nil {
		return r
	}
	switch kind {
	case "session.update":
		return s.update(ctx, ev)
	case "input_audio_buffer.append":
		return s.append(ctx, ev)
	case "input_audio_buffer.commit":
		if s.heard.buffered == 0 {
			return &refusal{"input_audio_buffer_commit_empty", "The buffer is empty.", ""}
		}
		s.utterance = s.id("item")
		s.commit(ctx)
	case "input_audio_buffer.clear":
		s.heard.buffered = 0
		s.send(ctx, "input_audio_buffer.cleared", tree{})
	case "conversation.item.create":
		return s.create(ctx, ev)
	case "conversation.item.delete", "conversation.item.retrieve":
		return s.known(ctx, kind, ev["item_id"].(string))
	case "conversation.item.truncate":
		return s.truncate(ctx, ev)
	case "response.create":
		return s.respond(ctx, ev)
	case "response.cancel":
		if s.answering == nil {
			return &refusal{"response_cancel_not_active", "Cancellation failed: no active response found", ""}
		}
		s.cancel(ctx, "client_cancelled")
	}
	return nil
}

// update changes the settings, all or nothing.
func (s *StrictSession) update(ctx context.Context, ev tree) *refusal {
	if r := s.d.session.check("session", ev["session"]); r != nil {
		return r
	}
	session := ev["session"].(tree)
	if model, has := session["model"]; has && model != s.model {
		return invalid("session.model", "The model cannot be changed.")
	}
	if voice := s.setting(session, "audio.output.voice", "voice"); voice != nil && s.spoke && voice != s.setting(s.settings, "audio.output.voice", "voice") {
		return &refusal{"cannot_update_voice", "Cannot update a conversation's voice if assistant audio is present.", "session.audio.output.voice"}
	}
	merge(s.settings, session)
	s.configured = true
	s.send(ctx, "session.updated", tree{"session": s.settings})
	return nil
}

// setting returns the value at the first of the paths that has one.
func (s *StrictSession) setting(of tree, paths ...string) any {
	for _, path := range paths {
		var v any = of
		for name := range strings.SplitSeq(path, ".") {
			t, _ := v.(tree)
			v = t[name]
		}
		if v != nil {
			return v
		}
	}
	return nil
}

// merge puts the fields of from into to; lists and null replace.
func merge(to, from tree) {
	for name, v := range from {
		inner, ok := v.(tree)
		old, had := to[name].(tree)
		if ok && had && name != "turn_detection" && name != "tool_choice" {
			merge(old, inner)
			continue
		}
		to[name] = v
	}
}

// append takes sound.
func (s *StrictSession) append(ctx context.Context, ev tree) *refusal {
	sound, err := base64.StdEncoding.DecodeString(ev["audio"].(string))
	switch {
	case !s.configured:
		return &refusal{"invalid_event", "Audio came before session.updated.", "type"}
	case err != nil:
		return invalid("audio", "%v", err)
	case len(sound) == 0 || len(sound)%2 != 0:
		return invalid("audio", "%d bytes are not whole samples.", len(sound))
	}
	turns, _ := s.setting(s.settings, "audio.input.turn_detection", "turn_detection").(tree)
	for _, happened := range s.heard.hear(sound, s.d.RateIn, turns) {
		if happened.began {
			s.utterance = s.id("item")
			s.send(ctx, "input_audio_buffer.speech_started", tree{"audio_start_ms": happened.at.Milliseconds(), "item_id": s.utterance})
			if s.answering != nil && turns["interrupt_response"] != false {
				s.cancel(ctx, "turn_detected")
			}
			continue
		}
		s.send(ctx, "input_audio_buffer.speech_stopped", tree{"audio_end_ms": happened.at.Milliseconds(), "item_id": s.utterance})
		s.commit(ctx)
		if turns["create_response"] != false {
			s.begin(ctx, nil)
		}
	}
	return nil
}

// commit makes an item of what was said.
func (s *StrictSession) commit(ctx context.Context) {
	s.heard.buffered = 0
	before := s.before()
	if s.d.ghosts {
		before = s.id("ghost")
	}
	s.send(ctx, "input_audio_buffer.committed", tree{"previous_item_id": before, "item_id": s.utterance})
	it := tree{"id": s.utterance, "object": "realtime.item", "type": "message", "role": "user", "status": "completed", "content": []any{tree{"type": "input_audio", "transcript": nil}}}
	s.announce(ctx, it, before)
	s.send(ctx, "conversation.item.done", tree{"previous_item_id": before, "item": it})
	s.last = s.hears()
	if s.setting(s.settings, "audio.input.transcription", "input_audio_transcription") == nil {
		return
	}
	const transcription = "conversation.item.input_audio_transcription."
	if s.d.cumulative {
		first, _, _ := strings.Cut(s.last, " ")
		s.send(ctx, transcription+"updated", tree{"item_id": s.utterance, "content_index": 0, "transcript": first})
		s.send(ctx, transcription+"updated", tree{"item_id": s.utterance, "content_index": 0, "transcript": s.last})
	}
	s.send(ctx, transcription+"completed", tree{"item_id": s.utterance, "content_index": 0, "transcript": s.last, "usage": tree{"type": "duration", "seconds": 2}})
}

// create takes an item of the client.
func (s *StrictSession) create(ctx context.Context, ev tree) *refusal {
	it := ev["item"].(tree)
	id, _ := it["id"].(string)
	if id == "" {
		id = s.id("item")
		it["id"] = id
	}
	if s.items[id] != nil {
		return invalid("item.id", "There is already an item %q.", id)
	}
	at := len(s.order)
	switch before := ev["previous_item_id"]; before {
	case nil:
	case "root":
		at = 0
	default:
		if at = slices.Index(s.order, before.(string)) + 1; at == 0 {
			return &refusal{"item_not_found", fmt.Sprintf("There is no item %q.", before), "previous_item_id"}
		}
	}
	callID, _ := it["call_id"].(string)
	switch it["type"] {
	case "function_call":
		s.calls[callID] = false
	case "function_call_output":
		if done, asked := s.calls[callID]; !asked || done {
			return invalid("item.call_id", "There is no open call %q.", callID)
		}
		s.calls[callID] = true
		s.last = "output: " + it["output"].(string)
	default:
		content := it["content"].([]any)
		if len(content) == 0 {
			return invalid("item.content", "The content is empty.")
		}
		if words, ok := content[0].(tree)["text"].(string); ok && it["role"] == "user" {
			s.last = words
		}
	}
	if !s.configured {
		s.mu.Lock()
		s.seeded++
		s.mu.Unlock()
	}
	var before any
	if at > 0 {
		before = s.order[at-1]
	}
	it["object"], it["status"] = "realtime.item", "completed"
	role, _ := it["role"].(string)
	s.order, s.items[id] = slices.Insert(s.order, at, id), &item{role: role}
	s.send(ctx, "conversation.item.added", tree{"previous_item_id": before, "item": it})
	s.send(ctx, "conversation.item.done", tree{"previous_item_id": before, "item": it})
	return nil
}

// known deletes or returns an item.
func (s *StrictSession) known(ctx context.Context, kind, id string) *refusal {
	at := slices.Index(s.order, id)
	if at < 0 {
		return &refusal{"item_not_found", fmt.Sprintf("There is no item %q.", id), "item_id"}
	}
	if kind == "conversation.item.retrieve" {
		s.send(ctx, "conversation.item.retrieved", tree{"item": tree{"id": id, "object": "realtime.item", "type": "message", "role": s.items[id].role, "content": []any{}}})
		return nil
	}
	s.order = slices.Delete(s.order, at, at+1)
	delete(s.items, id)
	s.send(ctx, "conversation.item.deleted", tree{"item_id": id})
	return nil
}

// truncate takes how much of an answer was played.
func (s *StrictSession) truncate(ctx context.Context, ev tree) *refusal {
	id := ev["item_id"].(string)
	it := s.items[id]
	if it == nil || it.role != "assistant" || it.sound == 0 {
		return &refusal{"item_truncate_invalid_item_id", fmt.Sprintf("There is no spoken answer %q.", id), "item_id"}
	}
	played := time.Duration(ev["audio_end_ms"].(float64) * float64(time.Millisecond))
	sent := time.Duration(it.sound) * time.Second / time.Duration(s.d.RateOut)
	if played > sent {
		return invalid("audio_end_ms", "Audio content of %s is already shorter than %s.", sent, played)
	}
	s.mu.Lock()
	s.cuts = append(s.cuts, Cut{id, played, sent})
	s.mu.Unlock()
	s.send(ctx, "conversation.item.truncated", tree{"item_id": id, "content_index": 0, "audio_end_ms": played.Milliseconds()})
	return nil
}

// respond takes response.create.
func (s *StrictSession) respond(ctx context.Context, ev tree) *refusal {
	response, _ := ev["response"].(tree)
	switch {
	case !s.configured:
		return &refusal{"invalid_event", "A response was asked for before session.updated.", "type"}
	case s.answering != nil:
		return &refusal{"conversation_already_has_active_response", "Conversation already has an active response in progress: " + s.answering.id + ".", ""}
	}
	s.begin(ctx, response)
	return nil
}
