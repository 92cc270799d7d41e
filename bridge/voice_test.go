package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/bridge/internal/task"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/thread"
)

// voice is an upstream whose sessions answer. Items, responses and calls have the same ids
// in every session, since nothing guarantees that they differ.
type voice struct {
	lifetime time.Duration // of a session; 0: unlimited

	mu       sync.Mutex
	sessions []*voiceLeg
	refuse   []error // for the next dials
	breaches []string
	hungUp   []string
}

func (v *voice) Name() string { return "voice" }

func (v *voice) breach(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.breaches = append(v.breaches, fmt.Sprintf(format, args...))
}

func (v *voice) HangUp(_ context.Context, id string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hungUp = append(v.hungUp, id)
	return nil
}

func (v *voice) Dial(ctx context.Context, d Dial) (UpstreamLeg, error) {
	v.mu.Lock()
	if len(v.refuse) > 0 {
		err := v.refuse[0]
		v.refuse = v.refuse[1:]
		v.mu.Unlock()
		return nil, err
	}
	l := &voiceLeg{
		voice: v, h: d.Handlers, prefix: d.ItemPrefix, id: fmt.Sprintf("rtc_%d", len(v.sessions)+1),
		in: make(chan []byte, 256), closed: make(chan struct{}), calls: make(map[string]bool),
	}
	v.sessions = append(v.sessions, l)
	v.mu.Unlock()
	if err := d.Created(l.id); err != nil {
		return nil, err
	}
	var err error
	if l.history, err = d.History(ctx); err != nil {
		return nil, err
	}
	l.run()
	return l, nil
}

func (v *voice) last() *voiceLeg {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sessions[len(v.sessions)-1]
}

// voiceLeg is one session. Its goroutine owns the fields below in.
type voiceLeg struct {
	voice   *voice
	h       media.Handlers
	history []thread.Message
	prefix  string
	id      string
	seeds   int
	once    sync.Once
	closed  chan struct{}
	done    <-chan struct{}
	frozen  atomic.Bool // it reads nothing
	in      chan []byte

	items  int
	last   string          // the newest item
	words  []string        // the user's
	calls  map[string]bool // answered or not
	owed   bool            // the last words ask for a tool that has not been called yet
	active string
	steps  []func()
}

func (l *voiceLeg) ID() string                     { return l.id }
func (l *voiceLeg) WriteAudio(*media.Packet) error { return nil }
func (l *voiceLeg) Can() Capabilities              { return (*realtimeLeg)(nil).Can() }
func (l *voiceLeg) MaxMessageSize() int            { return 64 << 10 }
func (l *voiceLeg) Forward(ctx context.Context, _ media.Sink, _ *media.Flow) error {
	select {
	case <-l.closed:
		return media.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *voiceLeg) Opening() [][]byte { return l.Append(l.history) }

func (l *voiceLeg) Append(messages []thread.Message) [][]byte {
	var events [][]byte
	for _, item := range replayItems(messages, l.MaxMessageSize(), func() string { l.seeds++; return fmt.Sprint(l.prefix, l.seeds) }) {
		events = append(events, realtime.ItemCreate("", item, ""))
	}
	return events
}

func (l *voiceLeg) TrySend([]byte) bool { return false }

func (l *voiceLeg) Send(_ context.Context, data []byte) error {
	in := l.in
	if l.frozen.Load() {
		in = nil
	}
	select {
	case in <- data:
		return nil
	case <-l.closed:
		return media.ErrClosed
	}
}

func (l *voiceLeg) Close() error {
	l.once.Do(func() { close(l.closed) })
	<-l.done
	return nil
}

// drop ends the session without notice.
func (l *voiceLeg) drop(state media.State) {
	l.once.Do(func() { close(l.closed) })
	<-l.done
	l.h.State(state)
}

func (l *voiceLeg) emit(format string, args ...any) { l.h.Message(fmt.Appendf(nil, format, args...)) }

// pace is the interval between two events of a response.
const pace = 100 * time.Millisecond

func (l *voiceLeg) run() {
	expires := int64(0)
	if l.voice.lifetime > 0 {
		expires = time.Now().Add(l.voice.lifetime).Unix()
	}
	l.done = task.Go(func() {
		l.emit(`{"type":"session.created","session":{"type":"realtime","expires_at":%d}}`, expires)
		for {
			var step <-chan time.Time
			if len(l.steps) > 0 {
				step = time.After(pace)
			}
			select {
			case data := <-l.in:
				l.take(data)
			case <-step:
				next := l.steps[0]
				l.steps = l.steps[1:]
				next()
			case <-l.closed:
				return
			}
		}
	})
}

func (l *voiceLeg) take(data []byte) {
	ev, err := realtime.Decode(data)
	if err != nil {
		l.voice.breach("event %q: %v", data, err)
		return
	}
	switch ev.Type {
	case realtime.TypeSessionUpdate:
		l.emit(`{"type":"session.updated","session":{"type":"realtime","audio":{"input":{"turn_detection":{"type":"server_vad"}}}}}`)
	case realtime.TypeItemCreate:
		l.create(ev)
	case realtime.TypeResponseCreate:
		if l.active != "" {
			l.emit(`{"type":"error","error":{"type":"invalid_request_error","code":"conversation_already_has_active_response","message":"busy","event_id":%q}}`, ev.EventID)
			return
		}
		l.respond()
	case realtime.TypeResponseCancel:
		if l.active != "" {
			l.steps = nil
			l.emit(`{"type":"response.done","response":{"id":%q,"status":"cancelled"}}`, l.active)
			l.active = ""
		}
	}
}

func (l *voiceLeg) create(ev realtime.Event) {
	item, err := realtime.DecodeItem(ev.Item)
	if err != nil {
		l.voice.breach("item %s: %v", ev.Item, err)
		return
	}
	switch {
	case item.Type == realtime.ItemMessage && item.Role == "user":
		l.words, l.owed = append(l.words, item.Text()), true
	case item.Type == realtime.ItemFunctionCall:
		if l.calls[item.CallID] {
			l.voice.breach("%s: call %s twice", l.id, item.CallID)
		}
		l.calls[item.CallID], l.owed = true, false
	case item.Type == realtime.ItemFunctionCallOutput:
		if !l.calls[item.CallID] {
			l.voice.breach("%s: output of the unknown call %s", l.id, item.CallID)
		}
		l.calls[item.CallID] = false
	}
	l.added(item)
}

// added announces an item as the newest of the conversation.
func (l *voiceLeg) added(item realtime.Item) {
	raw, _ := json.Marshal(item)
	previous := "null"
	if l.last != "" {
		previous = fmt.Sprintf("%q", l.last)
	}
	l.last = item.ID
	l.emit(`{"type":"conversation.item.added","previous_item_id":%s,"item":%s}`, previous, raw)
}

// respond answers everything that the user has said, or calls the tool that the last words
// name.
func (l *voiceLeg) respond() {
	l.items++
	id, item := fmt.Sprintf("resp_%d", l.items), fmt.Sprintf("item_%d", l.items)
	l.active = id
	l.emit(`{"type":"response.created","response":{"id":%q,"status":"in_progress"}}`, id)
	tool := l.owed && strings.HasPrefix(l.words[len(l.words)-1], "tool ")
	l.owed = false
	if tool {
		call := fmt.Sprintf("call_%d", l.items)
		l.calls[call] = true
		l.steps = []func(){
			func() {
				l.emit(`{"type":"response.output_item.done","response_id":%q,"item":{"id":%q,"type":"function_call","status":"completed","call_id":%q,"name":"slow","arguments":"{}"}}`, id, item, call)
				l.last = item
			},
			func() { l.over(id) },
		}
		return
	}
	text := ""
	l.steps = []func(){
		func() {
			text = "You said: " + strings.Join(l.words, "; ")
			l.added(realtime.Item{ID: item, Type: realtime.ItemMessage, Role: "assistant", Status: "in_progress"})
		},
		func() {
			l.emit(`{"type":"output_audio_buffer.started","response_id":%q}`, id)
			l.emit(`{"type":"response.output_audio_transcript.delta","response_id":%q,"item_id":%q,"delta":"You said"}`, id, item)
		},
		func() {
			l.emit(`{"type":"response.output_audio_transcript.done","response_id":%q,"item_id":%q,"transcript":%q}`, id, item, text)
			l.emit(`{"type":"response.output_item.done","response_id":%q,"item":{"id":%q,"type":"message","role":"assistant","status":"completed","content":[{"type":"output_audio","transcript":%q}]}}`, id, item, text)
			l.over(id)
		},
		func() { l.emit(`{"type":"output_audio_buffer.stopped","response_id":%q}`, id) },
	}
}

func (l *voiceLeg) over(id string) {
	l.active = ""
	l.emit(`{"type":"response.done","response":{"id":%q,"status":"completed","output":[]}}`, id)
}

var errBusy = &realtime.APIError{Status: 503, Message: "busy"}
