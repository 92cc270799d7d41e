package bridge

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

// phase is where a call is in its life.
type phase int

const (
	dialing     phase = iota // the upstream is not there yet
	configuring              // history and settings are sent
	live                     // the caller is heard
	draining                 // late transcripts are waited for
	ended
)

// Times of a call.
const (
	setupTimeout      = 20 * time.Second        // from the dialling to the ready session
	transcriptTimeout = 10 * time.Second        // for the words of a spoken turn
	drainTimeout      = 2 * time.Second         // for the last words when a call ends
	takeoverDrain     = 300 * time.Millisecond  // somebody waits for the thread
	flushEvery        = 800 * time.Millisecond  // partial text is saved
	publishEvery      = 120 * time.Millisecond  // partial text is told to watchers
	createTimeout     = 10 * time.Second        // for the upstream's reply to response.create
	updateTimeout     = 10 * time.Second        // for its reply to session.update in a live call
	speechTimeout     = 60 * time.Second        // a turn that never ends is not waited for
	autoResponseWait  = 1500 * time.Millisecond // for the response that ends a spoken turn
	asksAfter         = 2 * time.Second         // for a client to ask for the answer that it has
)

// Limits of what a call holds.
const (
	maxHeldEvents  = 64       // browser events that wait for the session
	maxHeldBytes   = 1 << 20  // of them
	maxMessageText = 1 << 20  // bytes of one message's text
	maxSent        = 1024     // own events whose errors are still known
	maxInputText   = 32 << 10 // bytes of a typed text
)

// facts are what does not change during a call.
type facts struct {
	callID  string
	key     persistence.Key
	session SessionConfig
	// wish is what the client asked for when it started the call.
	wish wish
	// history are the thread's last messages as items; replayed counts the
	// messages.
	history  []realtime.Item
	replayed int
	// lastMessage is the id of the thread's last message when the call began.
	lastMessage string
	// upstreamLimit and browserLimit are the largest events that the legs take,
	// in bytes.
	upstreamLimit, browserLimit int
	maxDuration                 time.Duration
	// approve names the tools that the user must allow each time; fillerAfter is
	// when the voice says that a tool still runs, 0 for never.
	approve     map[string]bool
	fillerAfter time.Duration
	// cost is what a response took, in US dollars; nil when it is unknown.
	cost func(realtime.Usage) *float64
	// itemPrefix begins the ids of the items that the bridge creates. It is
	// different in every call, since items are named in the saved messages.
	itemPrefix string
	// newID makes ids of messages and records.
	newID func() string
}

// state is everything that is known of a call and decides about it. It is owned
// by the call's loop.
type state struct {
	facts
	registry *toolkit.Registry
	client   *clienttool.Toolkit

	now     time.Time
	effects []effect

	phase     phase
	record    persistence.CallRecord
	reason    EndReason
	setupBy   time.Time
	endBy     time.Time
	drainBy   time.Time
	connected bool // the browser has been connected once

	settings settings
	turns    sequencer
	spoken   spoken
	script   transcript
	tools    map[string]*toolRun // by the model's call id
	open     []*toolRun          // those that may not be done

	held      [][]byte // browser events that came before the session was ready
	heldBytes int
	heldTexts []said // texts from elsewhere, likewise
	sent      map[string]sentEvent
	sentOrder []string
	counter   int
}

// sentEvent remembers what the bridge sent upstream, so that an error can be
// told to whoever caused it.
type sentEvent struct {
	kind sentKind
	// clientID is the event_id of the browser's event that caused this one.
	clientID string
	// forClient says that the browser asked for it.
	forClient bool
	// itemID is the item that the event creates.
	itemID string
}

type sentKind int

const (
	sentOther sentKind = iota
	sentSeed
	sentSession
	sentCreate
	sentText
	sentOutput
)

func newState(f facts, record persistence.CallRecord, registry *toolkit.Registry, client *clienttool.Toolkit, now time.Time) *state {
	s := &state{
		facts: f, registry: registry, client: client, now: now, record: record,
		setupBy: now.Add(setupTimeout),
		tools:   make(map[string]*toolRun),
		sent:    make(map[string]sentEvent),
		script:  newTranscript(),
		spoken:  spoken{rate: defaultRate},
		turns:   sequencer{responses: make(map[string]*response)},
	}
	if f.maxDuration > 0 {
		s.endBy = now.Add(f.maxDuration)
	}
	return s
}

// reduce takes what happened and returns what is to be done. It does neither
// input nor output and knows no other time than now.
func (s *state) reduce(now time.Time, in input) []effect {
	s.now, s.effects = now, nil
	if s.phase == ended {
		return nil
	}
	s.take(in)
	s.onTime()
	if s.phase != ended {
		s.askForAnswer()
		s.tellTurn()
	}
	return s.effects
}

func (s *state) take(in input) {
	switch in := in.(type) {
	case upstreamEvent:
		s.upstream(in.data)
	case browserEvent:
		s.browser(in.data)
	case browserTooLarge:
		s.refuse("", "event_too_large", fmt.Sprintf("The event of %d bytes is too large and was not read.", in.size), "")
	case upstreamState:
		s.upstreamIs(in.state)
	case browserState:
		s.browserIs(in.state)
	case toolProgress:
		s.toolProgressed(in.callID, in.chunk)
	case toolEnd:
		s.toolEnded(in.callID, in.result)
	case said:
		s.say(in)
	case interruption:
		s.stopTurn(in)
	case freshStart:
		s.forget()
	case newTools:
		s.replaceTools(in.entries)
	case stop:
		s.end(in.reason)
	case tick:
	}
}

// deadline is when the state wants a tick; zero is never.
func (s *state) deadline() time.Time {
	at := until(s.drainBy, s.script.deadline())
	at = until(at, s.turns.deadline())
	at = until(at, s.settings.deadline())
	at = until(at, s.toolDeadline())
	if s.phase < draining {
		at = until(at, s.endBy)
	}
	if s.phase < live {
		at = until(at, s.setupBy)
	}
	return at
}

// due says whether a deadline has come.
func (s *state) due(at time.Time) bool { return !at.IsZero() && !s.now.Before(at) }

func (s *state) onTime() {
	switch {
	case s.phase < live && s.due(s.setupBy):
		s.end(EndUpstreamSetup)
	case s.due(s.endBy):
		s.end(EndMaxDuration)
	}
	s.script.onTime(s)
	s.turns.onTime(s)
	s.settings.onTime(s)
	s.onTools()
	if s.phase == draining && (s.due(s.drainBy) || !s.script.awaitsWords()) {
		s.finish()
	}
}

func (s *state) upstreamIs(state rtc.State) {
	switch state {
	case rtc.StateClosed:
		s.lost(EndUpstreamEndedIt)
	case rtc.StateFailed:
		s.lost(EndUpstreamLost)
	}
}

func (s *state) browserIs(state rtc.State) {
	switch state {
	case rtc.StateConnected:
		s.connected = true
	case rtc.StateClosed:
		s.end(EndBrowserClosed)
	case rtc.StateFailed:
		if !s.connected {
			s.end(EndNeverConnected)
			return
		}
		s.end(EndBrowserLost)
	}
}

// nextItemID makes the id of an item, at most 32 characters long.
func (s *state) nextItemID() string {
	s.counter++
	return fmt.Sprintf("%s_%d", s.itemPrefix, s.counter)
}

// ownPrefix begins the ids of events that the bridge sends upstream.
const ownPrefix = "vb_"

// nextEventID makes the id of an event for the upstream and remembers what it is.
func (s *state) nextEventID(what sentEvent) string {
	s.counter++
	id := fmt.Sprintf("%s%d", ownPrefix, s.counter)
	s.sent[id] = what
	s.sentOrder = append(s.sentOrder, id)
	if len(s.sentOrder) > maxSent {
		delete(s.sent, s.sentOrder[0])
		s.sentOrder = s.sentOrder[1:]
	}
	return id
}

func (s *state) do(e effect) { s.effects = append(s.effects, e) }

func (s *state) save(o op) { s.do(write{o}) }

// saveCall saves the call's record as it is now.
func (s *state) saveCall() { s.save(saveCall{s.record}) }

// tell sends one of the bridge's own events to the browser.
func (s *state) tell(event any) { s.do(toBrowser{data: encode(event)}) }

// refuse answers an event of the browser with an error event. clientID is the
// event_id of the browser's event, code and message say what is wrong with it.
func (s *state) refuse(clientID, code, message, param string) {
	s.do(toBrowser{data: realtime.ErrorEvent(s.ownEventID(), realtime.Error{
		Code: code, Message: message, Param: param, EventID: clientID,
	})})
}

func (s *state) note(level slog.Level, message string, attrs ...any) {
	s.do(report{level: level, message: message, attrs: attrs})
}

// encode writes an event of the bridge.
func encode(v any) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		// Raw JSON of a tool or of the upstream was checked before; anything else
		// is a mistake in the code.
		panic("bridge: encode event: " + err.Error())
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}
