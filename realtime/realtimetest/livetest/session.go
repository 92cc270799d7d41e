package livetest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/served"
	"voicebridge/realtime/simulator"
)

// Times of a session of GPT-Live.
const (
	connectWithin = 20 * time.Second          // until it is connected
	starvedAfter  = 30_975 * time.Millisecond // without sound from the caller
	usageEvery    = 12 * time.Second
	yieldsAfter   = 400 * time.Millisecond // until it stops when somebody speaks
	wordEvery     = 500 * time.Millisecond // of the caller, until it is told
	placedAfter   = 600 * time.Millisecond // until what it is told has a place
	sendWithin    = 10 * time.Second       // that a client may leave its channel unread
	wordsLag      = 250 * time.Millisecond // of a transcript behind its sound
)

// Session is one session of GPT-Live. Its exported methods are safe for concurrent use.
//
// It hears that somebody speaks, as a session of the simulator does; the words are those of the script's next utterance, in fragments,
// of which the last comes after the delegation. Its clock is the caller's sound.
type Session struct {
	id      string
	cfg     *simulator.Config
	peer    simulator.Connection
	loop    *served.Loop
	ear     *served.Detector
	session object
	began   time.Time
	done    chan struct{}
	ctx     context.Context
	cancel  context.CancelFunc
	asides  []*websocket.Conn

	mu       sync.Mutex
	received []simulator.Record

	opened  bool
	over    bool
	next    time.Time // when the next tick is due
	lastIn  time.Time // when sound came last
	packets int64
	voice   voice
	// heardTill is until when the caller's words were told while they speak.
	heardTill  time.Duration
	heardWords int
	delegation any      // the newest one
	turn       int      // of the script's utterances
	said       []string // by the user, in this session and before
	told       int64
}

// ID returns the session's id.
func (s *Session) ID() string { return s.id }

// Over reports whether it has ended.
func (s *Session) Over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Received returns every command in order.
func (s *Session) Received() []simulator.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received)
}

// Session is the session object of the creation.
func (s *Session) Session() json.RawMessage {
	raw, _ := json.Marshal(s.session) // it was JSON
	return raw
}

// Do makes the session's goroutine run f soon.
func (s *Session) Do(f func()) { s.loop.Do(f) }

// Expire ends it as one that is too old, and Drop without a word, as if its process had died.
func (s *Session) Expire() { s.Do(func() { s.end("expired") }) }

// Drop is described at Expire.
func (s *Session) Drop() { s.Do(s.stop) }

// Now is the time by the session's clock.
func (s *Session) Now() time.Duration { return time.Duration(s.ear.Packets()) * media.FrameTime }

func newSession(cfg *simulator.Config, session object) (*Session, error) {
	s := &Session{
		id: served.NewID("live_u1_"), cfg: cfg, loop: served.NewLoop(), session: session,
		began: time.Now(), lastIn: time.Now(),
		done: make(chan struct{}),
	}
	var err error
	s.ear, err = served.NewDetector(new(served.Energy), cfg.Deaf, func(h served.Speech) { s.Do(func() { s.heard(h) }) })
	if err != nil {
		return nil, err
	}
	s.ear.Configure(&served.TurnDetection{Threshold: 0.5, Prefix: 300, Silence: 500})
	input, _ := session["input"].([]any)
	for _, m := range input {
		if role, _ := served.Lookup(m.(object), "role"); role == "user" {
			content, _ := m.(object)["content"].([]any)
			s.said = append(s.said, fmt.Sprint(content[0].(object)["text"]))
		}
	}
	s.voice = voice{s: s}
	return s, nil
}

// run owns the session until it ends.
func (s *Session) run(parent context.Context) {
	defer close(s.done)
	s.ctx, s.cancel = context.WithCancel(parent)
	var wg sync.WaitGroup
	var flow media.Flow
	flow.Open()
	wg.Go(func() { _ = s.peer.Forward(s.ctx, s.ear, &flow) })
	s.loop.After(connectWithin, func() {
		if !s.opened {
			s.end("expired")
		}
	})
	s.next = time.Now().Add(media.FrameTime)
	_ = s.loop.Run(s.ctx, func() time.Time { return s.next }, func() { s.frame(time.Now()) })
	s.stop()
	_ = s.peer.Close()
	wg.Wait()
}

// stop ends the session without a word.
func (s *Session) stop() {
	s.over = true
	s.cancel()
}

// frame is the session's own tick: nothing happens without sound from the caller.
func (s *Session) frame(now time.Time) {
	s.next = s.next.Add(media.FrameTime)
	if !s.opened {
		return
	}
	packets := s.ear.Packets()
	if packets > s.packets {
		s.packets, s.lastIn = packets, now
	}
	if now.Sub(s.lastIn) >= starvedAfter {
		s.end("expired")
		return
	}
	s.ear.Starved(now)
	if now.Sub(s.lastIn) < media.Pause {
		s.voice.frame()
	}
	if at := int64(s.Now() / usageEvery); at > s.told {
		s.told = at
		s.emit(object{"type": "session.usage.updated", "usage": object{"seconds": s.seconds()}})
	}
}

func (s *Session) seconds() float64 { return s.Now().Seconds() }

// emit sends one event to whoever is connected.
func (s *Session) emit(o object) {
	o["event_id"] = served.NewID("event_")
	raw, _ := json.Marshal(o) // strings and numbers
	ctx, cancel := context.WithTimeout(s.ctx, sendWithin)
	defer cancel()
	if s.opened {
		_ = s.peer.Send(ctx, raw) // one that is gone says so
	}
	for _, k := range s.asides {
		_ = k.Write(ctx, websocket.MessageText, raw)
	}
}

// open begins the session.
func (s *Session) open() {
	s.opened, s.lastIn = true, time.Now()
	s.emit(s.started())
	s.loop.After(s.cfg.MaxDuration, func() { s.end("expired") })
}

func (s *Session) started() object {
	return object{"type": "session.started", "session": object{
		"id": s.id, "status": "active", "model": s.session["model"],
		"expires_at": s.began.Add(s.cfg.MaxDuration).Unix(),
	}}
}

func (s *Session) attach(k *websocket.Conn) {
	s.asides = append(s.asides, k)
	raw, _ := json.Marshal(s.started())
	_ = k.Write(s.ctx, websocket.MessageText, raw)
}

// end says why it ends, and what that has cost.
func (s *Session) end(reason string) {
	if s.over {
		return
	}
	s.emit(object{
		"type": "session.closed", "reason": reason, "session": object{"id": s.id},
		"usage": object{"seconds": s.seconds()},
	})
	s.loop.After(100*time.Millisecond, s.stop) // so that it can be read
	s.opened = s.opened && reason != "connection_lost"
}

// refuse answers a command.
func (s *Session) refuse(id string, e *realtime.Error) {
	s.emit(object{"type": "error", "error": object{
		"type": cmp.Or(e.Type, "invalid_request_error"), "code": e.Code, "message": e.Message, "param": e.Param,
		"client_event_id": id,
	}})
}

// order matches what is to be said as it stands, after a blank line.
var order = regexp.MustCompile(`(?s)^Say exactly [^\n]*:\n\n(.+)$`)

// commands are what a client may send, and the fields of each.
var commands = map[string]fieldsOf{
	"session.update":              {"session": {"delegation": fields["delegation"], "triggers": nil}},
	"session.input_audio.mute":    {},
	"session.input_audio.unmute":  {},
	"session.instructions.append": {"delegation_id": nil, "content": nil},
	"session.thinking.append":     {"delegation_id": nil, "content": nil},
	"session.commentary.append":   {"delegation_id": nil, "content": nil},
	"session.close":               {},
}

// message takes a command.
func (s *Session) message(data []byte) {
	if s.over {
		return
	}
	o, err := served.Read[object](data)
	kind, _ := o["type"].(string)
	id, _ := o["event_id"].(string)
	fields, known := commands[kind]
	var refusal *realtime.Error
	switch {
	case err != nil:
		refusal = realtime.Refuse("invalid_json", "", "It is not a JSON object.")
	case !known:
		refusal = realtime.Refuse("invalid_value", "type", "Supported values are %v.", len(commands))
	default:
		body := object{}
		for name, v := range o {
			if name != "type" && name != "event_id" {
				body[name] = v
			}
		}
		if refusal = fields.check(kind, body); refusal == nil {
			refusal = s.carryOut(kind, id, body)
		} else {
			refusal.Param = strings.TrimPrefix(refusal.Param, kind+".")
		}
	}
	got := simulator.Record{At: time.Now(), Event: realtime.Event{Type: kind, EventID: id, Raw: data}}
	if refusal != nil {
		got.Refused = refusal.Code
		s.refuse(id, refusal)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received = append(s.received, got)
}

func (s *Session) carryOut(kind, id string, o object) *realtime.Error {
	switch kind {
	case "session.update":
		return s.update(id, o)
	case "session.close":
		s.end("close_requested")
	case "session.input_audio.mute", "session.input_audio.unmute":
		s.emit(object{"type": kind + "d", "client_event_id": id})
	default:
		return s.append(kind, id, o)
	}
	return nil
}

func (s *Session) update(id string, o object) *realtime.Error {
	if kind, given := served.Lookup(o, "session", "delegation", "type"); given && kind != "client" {
		return realtime.Refuse("immutable_field_update", "session.delegation.type", "The type of delegation cannot be changed.")
	}
	s.emit(object{"type": "session.updated", "client_event_id": id, "session": object{"id": s.id}})
	return nil
}

// append takes what the voice is told.
func (s *Session) append(kind, id string, o object) *realtime.Error {
	text, _ := o["content"].(string)
	delegation, given := o["delegation_id"]
	switch {
	case !given:
		return realtime.Refuse("missing_required_parameter", "delegation_id", "Missing required parameter: 'delegation_id'.")
	case delegation != nil && delegation != s.delegation:
		return realtime.Refuse("invalid_value", "delegation_id", "There is no such delegation.")
	case tokens(text) > maxAppend:
		return realtime.Refuse("invalid_value", "content", "Context append text must not exceed %d tokens.", maxAppend)
	}
	for _, begins := range []string{"User: ", "The user has typed: "} { // to the session before, or now
		if said, ok := strings.CutPrefix(text, begins); ok {
			s.said = append(s.said, said)
		}
	}
	s.loop.After(placedAfter, func() {
		at := s.Now().Milliseconds()
		s.emit(object{"type": kind + "ed", "client_event_id": id, "start_ms": at, "end_ms": at + 200})
		if kind == "session.commentary.append" {
			if said := order.FindStringSubmatch(text); said != nil {
				text = said[1]
			}
			s.voice.say(text)
		}
	})
	return nil
}

// heard takes that the caller begins or ends to speak.
func (s *Session) heard(h served.Speech) {
	if !s.opened {
		return
	}
	at := time.Duration(h.At) * time.Millisecond
	spoken := s.cfg.Script.Spoken
	reply := &spoken[s.turn%len(spoken)]
	parts := wordsOf(reply.Transcript)
	half := max(1, len(parts)/2)
	if h.Started {
		s.voice.interrupted()
		s.heardTill, s.heardWords = at, 0
		s.listens(s.turn, parts)
		return
	}
	s.turn++
	s.said = append(s.said, reply.Transcript)
	from, told := s.heardTill, s.heardWords
	if told == 0 { // it was short
		from, told = at-600*time.Millisecond, half
		s.fragment("session.input_transcript.delta", strings.Join(parts[:half], ""), at-time.Second, from)
	}
	rest := func() {
		s.fragment("session.input_transcript.delta", strings.Join(parts[told:], ""), from, at-200*time.Millisecond)
	}
	if len(reply.Calls) == 0 {
		s.loop.After(200*time.Millisecond, rest)
		s.loop.After(400*time.Millisecond, func() { s.voice.say(reply.Say) })
		return
	}
	s.delegate()
	s.loop.After(300*time.Millisecond, rest)
}

// listens tells the words of a turn but the last, one after the other, while the caller speaks.
func (s *Session) listens(turn int, parts []string) {
	s.loop.After(wordEvery, func() {
		if s.turn != turn || s.heardWords >= len(parts)-1 {
			return
		}
		s.fragment("session.input_transcript.delta", parts[s.heardWords], s.heardTill, s.heardTill+wordEvery)
		s.heardTill, s.heardWords = s.heardTill+wordEvery, s.heardWords+1
		s.listens(turn, parts)
	})
}

func (s *Session) fragment(kind, text string, from, to time.Duration) {
	if text != "" {
		s.emit(object{
			"type": kind, "delta": text, "start_ms": max(from, 0).Milliseconds(), "end_ms": max(to, 0).Milliseconds(),
		})
	}
}

// delegate has the client do what the user wants.
func (s *Session) delegate() {
	s.delegation = served.NewID("item_")
	s.emit(object{
		"type": "session.delegation.created", "offset_ms": s.Now().Milliseconds(),
		"delegation": object{"id": s.delegation, "type": "delegation", "target": "client"},
	})
	s.voice.say("One moment, please.")
}

// wordsOf splits a text into words, each with the space before it.
func wordsOf(text string) (words []string) {
	for word := range strings.FieldsSeq(text) {
		words = append(words, " "+word)
	}
	return words
}

// voice is what the session says: silence, when it says nothing.
type voice struct {
	s      *Session
	frames [][]byte
	words  []string
	at     int           // of frames
	begun  time.Duration // by the session's clock
	told   int           // of words
	ends   bool          // it stops soon
	packet media.Packet
}

// say cuts off what is being said.
func (v *voice) say(text string) {
	if text == "" {
		return
	}
	said := append([]string{"nothing yet"}, v.s.said...)
	before := said[:max(len(said)-1, 1)]
	fill := strings.NewReplacer("{previous}", before[len(before)-1], "{everything}", strings.Join(before, " / "))
	text = fill.Replace(text)
	v.frames, v.words, v.at, v.told, v.begun, v.ends = simulator.Speech(text), wordsOf(text), 0, 0, v.s.Now(), false
}

func (v *voice) interrupted() {
	if v.at < len(v.frames) && !v.ends {
		v.ends = true
		v.s.loop.After(yieldsAfter, func() {
			if v.ends && v.at < len(v.frames) { // what was said is still told
				v.words = v.words[:max(v.told, min(len(v.words)*v.at/len(v.frames)+1, len(v.words)))]
				v.frames = v.frames[:v.at]
			}
		})
	}
}

func (v *voice) frame() {
	frame := []byte{0xf8, 0xff, 0xfe} // 20 ms of silence
	if v.at < len(v.frames) {
		frame = v.frames[v.at]
		v.at++
	}
	v.tell()
	v.packet.Source, v.packet.Payload = 1, frame
	v.packet.Sequence++
	v.packet.Timestamp += media.FrameStep
	_ = v.s.peer.WriteAudio(&v.packet) // one that is gone says so
}

// tell sends the words that were spoken a moment ago, three at a time.
func (v *voice) tell() {
	if v.told >= len(v.words) || len(v.frames) == 0 {
		return
	}
	length := time.Duration(len(v.frames)) * media.FrameTime / time.Duration(len(v.words))
	next := min(v.told+2, len(v.words))
	from, to := v.begun+time.Duration(v.told)*length, v.begun+time.Duration(next)*length
	if v.s.Now() < to+wordsLag {
		return
	}
	v.s.fragment("session.output_transcript.delta", strings.Join(v.words[v.told:next], ""), from, to)
	v.told = next
}
