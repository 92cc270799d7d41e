package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
	"voicebridge/realtime/ws"
)

const (
	// setUpTimeout bounds how long it may take to set up a call, closeTimeout how long to end it.
	setUpTimeout = 30 * time.Second
	closeTimeout = 10 * time.Second
	offeredModel = "load"
)

// rig makes calls through a bridge: it has both ends.
type rig struct {
	load   *load
	api    *rtc.API
	bridge *bridge
	client *realtime.Client
	socket *ws.Client // unless callers come over WebRTC
	calls  []*call
	opened []func() error // what close closes, the last first
	// sessions has the upstream's end of the call that is being made.
	sessions chan *simulator.Session
	silent   int // frames of each turn
	// speech is what callers say, and sound what the model says with its words; nil if audio is only carried.
	speech [][]byte
	sound  []string
	// alive ends, with its cause, when the bridge or a call does.
	alive context.Context
	end   context.CancelCauseFunc
	all   sync.WaitGroup // what sends
}

// open starts the upstream and the bridge.
func (r *rig) open(c Config, calls int) (err error) {
	r.silent = turnFrames * (100 - cmp.Or(c.Speech, 100)) / 100
	if r.api, err = rtc.New(rtc.Config{Loopback: true, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	r.opened = append(r.opened, r.api.Close)
	host, err := r.startUpstream(calls)
	if err != nil {
		return err
	}
	base := "http://" + host + "/v1"
	if c.Socket || c.SocketClients {
		r.speech = simulator.UserSpeech()
	}
	if c.Socket {
		base = "ws://" + host + "/v1/realtime"
		if r.sound, err = spokenSound(r.speech, max(c.Events, 1)); err != nil {
			return err
		}
	}
	r.bridge, err = startBridge(r.alive, c.Bridge, base, calls)
	if err != nil {
		return err
	}
	go func() {
		<-r.bridge.exited
		r.end(errors.New("the bridge has ended"))
	}()
	pool := &http.Transport{}
	r.opened = append(r.opened, func() error { pool.CloseIdleConnections(); return nil })
	r.client = &realtime.Client{
		CallsURL: fmt.Sprintf("%s/v1/realtime/calls?record=%t", r.bridge.url, c.Record),
		HTTP:     &http.Client{Transport: pool}, Timeout: setUpTimeout,
	}
	if c.SocketClients {
		profile, _ := ws.Find("openai")
		address := fmt.Sprintf("%s/v1/realtime?record=%t", r.bridge.url, c.Record)
		r.socket = &ws.Client{Profile: profile, URL: address, HTTP: r.client.HTTP}
	}
	return nil
}

// startUpstream serves a simulator on a port of loopback, and returns its address. It sends audio back as it comes.
func (r *rig) startUpstream(calls int) (string, error) {
	r.sessions = make(chan *simulator.Session, 1)
	sim, err := simulator.New(simulator.Config{
		API: r.api, Models: []string{offeredModel}, MaxSessions: calls + spareCalls, Deaf: true,
		Drive: func(s *simulator.Session) media.Sink {
			select {
			case r.sessions <- s:
			default: // more than one of a call
			}
			return s
		},
	})
	if err != nil {
		return "", err
	}
	ln, err := new(net.ListenConfig).Listen(r.alive, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for the upstream: %w", err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(r.alive))
	quiet := slog.NewLogLogger(slog.DiscardHandler, 0)
	server := &http.Server{Handler: sim, ReadHeaderTimeout: closeTimeout, ErrorLog: quiet}
	var all sync.WaitGroup
	all.Go(func() { _ = sim.Run(running) }) // it returns nil: the peers' API is ours
	all.Go(func() { _ = server.Serve(ln) }) // it ends by Close, with an error that says so
	r.opened = append(r.opened, func() error {
		stop()
		err := server.Close()
		all.Wait()
		return err
	})
	return ln.Addr().String(), nil
}

// dial makes n calls, one after the other, and returns when all are ready.
func (r *rig) dial(n int) error {
	for i := range n {
		if err := r.setUp(r.newCall(i+1, n)); err != nil {
			return fmt.Errorf("set up call %d of %d: %w", i+1, n, err)
		}
	}
	return nil
}

// newCall returns the ith of n calls.
func (r *rig) newCall(i, n int) *call {
	c := &call{load: r.load, speech: r.speech, silent: r.silent, ready: make(chan struct{})}
	c.frames = turnFrames * i / n // they do not speak all at once
	c.lost = func(err error) { r.end(fmt.Errorf("call %d of %d was lost: %w", i, n, err)) }
	r.calls = append(r.calls, c)
	return c
}

// setUp makes a call and returns when it is ready.
func (r *rig) setUp(c *call) (err error) {
	ctx, cancel := context.WithTimeout(r.alive, setUpTimeout)
	defer cancel()
	c.began = time.Now()
	if err := r.connect(ctx, c); err != nil {
		return err
	}
	flow := new(media.Flow)
	flow.Open()
	c.all.Go(func() { _ = c.peer.Forward(r.alive, echoed{&r.load.audio}, flow) }) // it ends with the call
	select {
	case <-c.ready:
		r.load.ready.add(time.Since(c.began))
	case <-ctx.Done():
		return fmt.Errorf("it is not ready: %w", context.Cause(ctx))
	}
	select {
	case session := <-r.sessions:
		c.model = speaker{session: session, name: c.id, sound: r.sound}
		return nil
	default:
		return errors.New("it is ready without a session upstream")
	}
}

// connect makes the caller's connection.
func (r *rig) connect(ctx context.Context, c *call) error {
	handlers := media.Handlers{Message: c.read, State: func(s media.State) {
		if s == media.StateFailed || s == media.StateClosed {
			c.lost(fmt.Errorf("connection %s", s))
		}
	}}
	if r.socket != nil {
		conn, err := r.socket.Dial(ctx, offeredModel, "")
		if err != nil {
			return err
		}
		c.peer = conn
		conn.Start(handlers)
		return nil
	}
	peer, offer, err := r.api.Offer(r.alive, handlers)
	if err != nil {
		return err
	}
	c.peer = peer
	made, err := r.client.CreateCall(ctx, offer, []byte(`{"type":"realtime","model":"`+offeredModel+`"}`))
	if err != nil {
		return err
	}
	c.id = made.ID
	return peer.Accept(ctx, made.Answer)
}

// kept returns how many KiB the bridge keeps, and its heap profile, if that is measured.
func (r *rig) kept(c Config) (int64, []byte, error) {
	if c.Kept == nil {
		return 0, nil, nil
	}
	// Pools let go of what they have at the second collection.
	if _, _, err := r.bridge.kept(r.alive); err != nil {
		return 0, nil, err
	}
	return r.bridge.kept(r.alive)
}

// send has all calls send until ctx ends.
func (r *rig) send(ctx context.Context, events int, silent bool) {
	var audio, words []func()
	for i, c := range r.calls {
		// A packet that cannot be sent counts as lost; whether the call is still up is checked elsewhere.
		audio = append(audio, func() {
			if packet := c.next(); packet != nil {
				_ = c.peer.WriteAudio(packet)
			}
		})
		// Real answers do not end at the same moment, so these do not either.
		c.model.events = i * answerEvents / len(r.calls)
		words = append(words, func() { c.model.speak(r.load.words.sentNow()) })
	}
	if !silent {
		r.all.Go(func() { r.load.pace(ctx, frame, audio) })
	}
	if events > 0 {
		r.all.Go(func() { r.load.pace(ctx, time.Second/time.Duration(events), words) })
	}
}

// close hangs up, ends everything and joins it. It adds to an error what the bridge said.
func (r *rig) close(err error) error {
	r.end(nil) // what ends calls from now on is no failure
	r.all.Wait()
	var errs []error
	for _, c := range r.calls {
		errs = append(errs, c.hangUp(r.client))
	}
	if err != nil {
		errs = nil // the calls of a bridge that failed cannot be ended
	}
	if r.bridge != nil {
		err = r.bridge.close(err)
	}
	errs = append(errs, err)
	for len(r.opened) > 0 {
		last := len(r.opened) - 1
		errs = append(errs, r.opened[last]())
		r.opened = r.opened[:last]
	}
	return errors.Join(errs...)
}

// call is the caller's end of one call, and what the upstream's end says in it.
type call struct {
	load  *load
	peer  connection
	id    string
	model speaker
	began time.Time
	ready chan struct{}
	lost  func(error) // more than once, perhaps
	all   sync.WaitGroup

	speech   [][]byte // what is said, over and over; nil if times are sent
	frames   int      // so far
	silent   int      // of each turn, at its end
	sequence uint16   // of the last packet sent
	packet   media.Packet
	payload  [payloadSize]byte
}

// connection is the caller's, whatever carries it.
type connection interface {
	media.Sink
	Forward(ctx context.Context, to media.Sink, flow *media.Flow) error
	Close() error
}

// read takes an event of the bridge.
func (c *call) read(raw []byte) {
	event, err := realtime.Decode(raw)
	switch {
	case err != nil:
		c.lost(err)
	case event.Type == "bridge.ready":
		close(c.ready)
	case event.Type == realtime.TypeAudioTranscriptDelta:
		if at, ok := spokenAt(event.Delta); ok {
			c.load.words.arrived(at)
		}
	case event.Type == realtime.TypeError && event.Error != nil:
		c.lost(event.Error)
	case event.Type == "bridge.ended":
		var ended struct{ Reason string }
		_ = json.Unmarshal(raw, &ended) // it has been decoded
		c.lost(errors.New("the bridge ended it: " + ended.Reason))
	}
}

// Turns of a conversation: speech, and then silence in which Chromium sends two packets every 400 ms (Opus DTX): a
// frame of what noise there is, and one that says that no more follow.
const (
	turnFrames            = 400 // 8 s
	refreshEvery, refresh = 20, 2
)

var silence, pause = []byte{tocByte, 0xff, 0xfe}, []byte{tocByte}

// next returns what the caller sends with the next frame, nil for nothing.
func (c *call) next() *media.Packet {
	frame := c.frames
	c.frames++
	silent := frame%turnFrames + c.silent - turnFrames // frames of silence before this one
	if silent >= 0 && silent%refreshEvery >= refresh {
		return nil
	}
	c.sequence++
	payload := c.payload[:]
	switch {
	case c.speech == nil:
		payload[0] = tocByte
		binary.BigEndian.PutUint64(payload[1:], uint64(c.load.audio.sentNow())) // read again by WriteAudio
	case silent < 0:
		payload = c.speech[frame%len(c.speech)]
	case silent%refreshEvery == 0:
		payload = silence
	default:
		payload = pause
	}
	c.packet = media.Packet{Source: 1, Sequence: c.sequence, Timestamp: uint32(frame * frameTicks), Payload: payload} // it wraps as in RTP
	return &c.packet
}

// hangUp ends the call at both ends and joins its goroutines, within closeTimeout.
func (c *call) hangUp(client *realtime.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var err error
	if c.id != "" {
		err = client.Hangup(ctx, c.id)
	}
	if c.peer != nil {
		err = errors.Join(err, c.peer.Close())
	}
	c.all.Wait()
	return err
}
