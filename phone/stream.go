package phone

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coder/websocket"

	"voicebridge/realtime"
)

const (
	// keysPause ends the keys of a caller, as # does, and maxKeys limits them.
	keysPause, maxKeys = 2 * time.Second, 32
	// writeTimeout limits how long a carrier may not read, silent how long one says nothing until another socket may
	// take its place.
	writeTimeout, silent = 5 * time.Second, 2 * time.Second
	tick                 = 20 * time.Millisecond
	// startTimeout is how long a socket may take to begin a stream.
	startTimeout = 5 * time.Second
	// MaxMessage is the largest message of a carrier, in bytes.
	MaxMessage = 128 << 10
)

// ReadStart reads the start of a stream from a carrier's socket.
func ReadStart(ctx context.Context, c Carrier, wire *websocket.Conn) (m Message, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for range 10 {
		_, data, err := wire.Read(ctx)
		if err != nil {
			return m, fmt.Errorf("read start: %w", err)
		}
		if m, err = c.Read(data); err != nil || m.Kind == Start {
			return m, err
		}
	}
	return m, fmt.Errorf("%w: no start", ErrRefused)
}

// Config is the configuration of a [Stream].
type Config struct {
	Carrier Carrier
	// Start is the message with which the carrier has begun the stream.
	Start Message
	// Keys takes the keys that the caller has pressed, Gone that the caller has hung up, or did not come back within
	// Grace. They may wait.
	Keys  func(keys string)
	Gone  func()
	Grace time.Duration
	// Mask has the call hear silence while the caller types.
	Mask bool
	Log  *slog.Logger
}

// Stream is the sound of a call: for the carrier it is the other end of the socket, for the call it is the socket of a
// client of the Realtime API, a wsserver.Socket. It outlives its carrier's socket, which may be replaced. It is safe
// for concurrent use.
type Stream struct {
	cfg    Config
	events chan []byte // for the call
	typed  chan string
	done   chan struct{}
	wake   chan struct{}
	// writing has what is sent in order; it is taken before mu.
	writing sync.Mutex

	mu         sync.Mutex
	wire       *websocket.Conn // nil while there is none
	came       time.Time       // when it last said something
	over       bool            // the carrier has said that the call is
	closed     bool
	lost       *time.Timer
	input      input
	player     player
	keys       string
	keysDue    *time.Timer
	interrupts bool // the caller's speech ends answers
	stream     string
	// moving is the number of a transfer, moved hears of its end, left means that the other one has answered, and back,
	// once one has failed, that another stream may take the place of this one, which the carrier has ended.
	moving     string
	moved      chan string
	left, back bool
}

// NewStream returns the stream of a call.
func NewStream(cfg Config) *Stream {
	f := cfg.Start.Format
	return &Stream{
		cfg: cfg, events: make(chan []byte, 256), typed: make(chan string, 8), done: make(chan struct{}),
		wake: make(chan struct{}, 1), input: input{format: f}, player: player{format: f}, interrupts: true,
		stream: cfg.Start.Stream,
	}
}

// Run runs the stream on its first socket. serve runs the call's side, and closes the stream when the call ends.
func (s *Stream) Run(wire *websocket.Conn, serve func()) {
	var work sync.WaitGroup
	work.Go(s.pace)
	work.Go(func() {
		for {
			select {
			case keys := <-s.typed:
				s.cfg.Keys(keys)
			case <-s.done:
				return
			}
		}
	})
	work.Go(func() { s.Attach(wire) })
	serve()
	s.shut()
	work.Wait()
}

// Over reports whether the carrier has said that the call is over, or that it goes on with somebody else.
func (s *Stream) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over || s.left
}

// Takes reports whether a socket that begins with start may take the place of the one before: that is lost, and of the
// same call and stream. After a transfer that has failed the stream may be a new one, once. A carrier may be back
// before its loss is noticed here, so that Takes waits for it.
func (s *Stream) Takes(start Message) bool {
	deadline := time.Now().Add(silent)
	for ticks := time.Tick(tick); ; <-ticks {
		if same, lost := s.takes(start); lost || !same || time.Now().After(deadline) {
			return same && lost
		}
	}
}

func (s *Stream) takes(start Message) (same, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	same = !s.closed && start.Call == s.cfg.Start.Call && (start.Stream == s.stream || s.back)
	lost = s.wire == nil || s.back || time.Since(s.came) > silent
	if same && lost {
		s.stream, s.back = start.Stream, false
	}
	return same, lost
}

// transferWait is how long a carrier may say nothing of a transfer. Then whoever talks is left alone.
const transferWait = 90 * time.Second

// Transfer has the caller connected with another number, as begin asks the carrier. It returns once that has answered,
// or why it has not: then the call is as before, once the carrier's socket is back.
func (s *Stream) Transfer(ctx context.Context, number string, begin func() error) error {
	moved := make(chan string, 1)
	s.mu.Lock()
	if s.moving != "" {
		s.mu.Unlock()
		return errors.New("busy")
	}
	s.moving, s.moved = number, moved
	s.mu.Unlock()
	if err := begin(); err != nil {
		s.cfg.Log.Warn("telephone call not transferred", "error", err)
		s.Moved("failed")
	}
	var reason string
	select {
	case reason = <-moved:
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.moved = nil
		return context.Cause(ctx)
	case <-time.After(transferWait):
		s.cfg.Log.Warn("carrier says nothing of a transfer")
		s.Moved("")
	}
	if reason != "" {
		return errors.New(reason)
	}
	return nil
}

// Moving returns the number with which the call is being connected; empty if it is not.
func (s *Stream) Moving() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moving
}

// Moved takes the end of a transfer: why it has failed, or nothing if the other one has answered. It reports whether
// the carrier is to open another stream. An answer that nobody waits for any more ends the call here.
func (s *Stream) Moved(reason string) (back bool) {
	s.mu.Lock()
	late := s.moved == nil && reason == "" && !s.left
	if s.moved != nil {
		s.moved <- reason
		s.moved = nil
	}
	if reason == "" {
		s.left = true
	} else if s.moving != "" && !s.left {
		s.moving, s.back = "", true
		s.await()
	}
	back = s.back && !s.left && !s.closed
	s.mu.Unlock()
	if late {
		s.cfg.Gone()
	}
	return back
}

// await gives a lost socket its time to come back; s.mu is held.
func (s *Stream) await() {
	if s.wire == nil && !s.over && !s.left && !s.closed && s.moving == "" {
		s.lost = time.AfterFunc(s.cfg.Grace, s.cfg.Gone)
	}
}

// Attach takes the messages of a carrier's socket, until it ends, another takes its place, or the call ends.
func (s *Stream) Attach(wire *websocket.Conn) {
	now := time.Now()
	s.mu.Lock()
	old := s.wire
	if s.closed {
		old = wire
	} else {
		s.wire, s.came = wire, now
		s.input.begin(now)
	}
	if s.lost != nil {
		s.lost.Stop()
	}
	s.mu.Unlock()
	if old != nil {
		_ = old.CloseNow()
	}
	err := s.read(wire)
	s.mu.Lock()
	if s.wire != wire {
		s.mu.Unlock()
		return
	}
	s.wire = nil
	over := s.over
	s.await()
	s.mu.Unlock()
	s.cfg.Log.Info("telephone stream ended", "over", over, "error", err)
	if over {
		s.cfg.Gone()
	}
	_ = wire.Close(websocket.StatusNormalClosure, "")
}

// read takes messages until the socket or the call is over.
func (s *Stream) read(wire *websocket.Conn) error {
	for {
		_, data, err := wire.Read(context.Background())
		if err != nil {
			return err
		}
		m, err := s.cfg.Carrier.Read(data)
		if err != nil {
			_ = wire.Close(websocket.StatusPolicyViolation, "")
			return err
		}
		s.take(m)
		if m.Kind == Stop {
			return nil
		}
	}
}

func (s *Stream) take(m Message) {
	now := time.Now()
	s.mu.Lock()
	s.came = now
	var sound []byte
	switch m.Kind {
	case Audio:
		sound = s.input.take(m, now)
		if s.cfg.Mask && s.keys != "" { // their tones may be in it
			sound = silence(s.cfg.Start.Format, len(sound))
		}
	case Mark:
		s.player.reached(m.Name, now)
	case Key:
		s.key(m.Name)
	case Stop:
		s.over = s.moving == "" // else it is of the stream alone
	}
	s.mu.Unlock()
	s.hear(sound)
}

// key takes a key that was pressed.
func (s *Stream) key(name string) {
	if s.keysDue != nil {
		s.keysDue.Stop()
	}
	s.keys += name
	if name == "#" || len(s.keys) >= maxKeys {
		s.endKeys()
		return
	}
	s.keysDue = time.AfterFunc(keysPause, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endKeys()
	})
}

func (s *Stream) endKeys() {
	if s.keys == "" {
		return
	}
	select {
	case s.typed <- s.keys:
	default: // nobody types so fast
	}
	s.keys = ""
}

// hear hands sound of the caller on to the call.
func (s *Stream) hear(sound []byte) {
	if len(sound) > 0 {
		s.send([]byte(`{"type":"` + realtime.TypeInputAppend + `","audio":"` +
			base64.StdEncoding.EncodeToString(sound) + `"}`))
	}
}

func (s *Stream) send(event []byte) {
	select {
	case s.events <- event:
	case <-s.done:
	}
}

// pace sends the sound of answers in time, and silence for the caller's that does not come.
func (s *Stream) pace() {
	timer := time.NewTicker(tick)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			s.mu.Lock()
			quiet := s.input.quiet(time.Now())
			s.mu.Unlock()
			s.hear(quiet)
		case <-s.wake:
		case <-s.done:
			return
		}
		s.play()
	}
}

// play sends the messages that are due.
func (s *Stream) play() {
	s.writing.Lock()
	defer s.writing.Unlock()
	for {
		s.mu.Lock()
		wire, m := s.wire, Message{}
		if wire != nil {
			m = s.player.next(time.Now())
		}
		s.mu.Unlock()
		if m.Kind == None {
			return
		}
		s.write(wire, m)
	}
}

func (s *Stream) write(wire *websocket.Conn, m Message) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	s.mu.Lock()
	text := s.cfg.Carrier.Write(s.stream, m)
	s.mu.Unlock()
	_ = wire.Write(ctx, websocket.MessageText, []byte(text)) // reading ends, too
}

// interrupt drops the rest of the answers, here and at the carrier, and tells the call how much was heard.
func (s *Stream) interrupt() {
	s.mu.Lock()
	events := s.player.interrupt(time.Now())
	s.mu.Unlock()
	if len(events) == 0 {
		return
	}
	s.writing.Lock()
	s.mu.Lock()
	wire := s.wire
	s.mu.Unlock()
	if wire != nil {
		s.write(wire, Message{Kind: Clear})
	}
	s.writing.Unlock()
	for _, e := range events {
		s.send(e)
	}
}
