package bench

import (
	"context"
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
)

const (
	// connectTimeout bounds how long it may take to set up a call.
	connectTimeout = 30 * time.Second
	// exitWait is how long to wait for the bridge to end after one of its calls has failed.
	exitWait     = time.Second
	offeredModel = "load"
)

// rig makes calls through a bridge: it has both ends.
type rig struct {
	api    *rtc.API
	bridge *bridge
	client *realtime.Client
	pool   *http.Transport // connections of client
	calls  []*call
	// sessions has the upstream's end of the call that is being made.
	sessions chan *simulator.Session
	// speech is what callers say, and sound what the model says with its words; nil if audio is only carried.
	speech [][]byte
	sound  []string
	// alive ends, with its cause, when the bridge or a call does.
	alive context.Context
	end   context.CancelCauseFunc

	upstream *http.Server
	stop     context.CancelFunc // of the upstream
	all      sync.WaitGroup
}

// openRig makes a rig for that many calls. close must be called.
func openRig(ctx context.Context, c Config, calls int) (*rig, error) {
	quiet := slog.New(slog.DiscardHandler)
	api, err := rtc.New(rtc.Config{Loopback: true, Logger: quiet})
	if err != nil {
		return nil, err
	}
	r := &rig{api: api, pool: &http.Transport{}, sessions: make(chan *simulator.Session, 1)}
	r.alive, r.end = context.WithCancelCause(ctx)
	host, err := r.startUpstream(quiet, calls)
	base := "http://" + host + "/v1"
	if c.Socket {
		r.speech, base = simulator.UserSpeech(), "ws://"+host+"/v1/realtime"
	}
	if err == nil && c.Socket && c.Events > 0 {
		r.sound, err = spokenSound(c.Events)
	}
	if err == nil {
		r.bridge, err = startBridge(ctx, c.Bridge, base, calls)
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	go func() {
		<-r.bridge.exited
		r.end(r.bridge.died())
	}()
	r.client = &realtime.Client{CallsURL: fmt.Sprintf("%s/v1/realtime/calls?record=%t", r.bridge.url, c.Record), HTTP: &http.Client{Transport: r.pool}, Timeout: connectTimeout}
	return r, nil
}

// startUpstream serves a simulator on a port of loopback until close, and returns its address. It sends audio back as it comes.
func (r *rig) startUpstream(log *slog.Logger, calls int) (string, error) {
	ln, err := new(net.ListenConfig).Listen(r.alive, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for the upstream: %w", err)
	}
	sim, err := simulator.New(simulator.Config{
		API: r.api, Models: []string{offeredModel}, MaxSessions: calls + spareCalls, Deaf: true, Logger: log,
		Drive: func(s *simulator.Session) media.Sink {
			select {
			case r.sessions <- s:
			default: // more than one of a call
			}
			return s
		},
	})
	if err != nil {
		return "", errors.Join(err, ln.Close())
	}
	running, stop := context.WithCancel(context.WithoutCancel(r.alive))
	r.stop = stop
	r.upstream = &http.Server{Handler: sim, ReadHeaderTimeout: closeTimeout, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	r.all.Go(func() { _ = sim.Run(running) })     // it returns nil: the peers' API is ours
	r.all.Go(func() { _ = r.upstream.Serve(ln) }) // it ends by close, with an error that says so
	return ln.Addr().String(), nil
}

// dial makes n calls, one after the other, and returns when all are ready.
func (r *rig) dial(l *load, n int) error {
	for range n {
		r.calls = append(r.calls, &call{speech: r.speech, words: speaker{sound: r.sound}})
	}
	for i := range n {
		if err := r.dialOne(l, r.calls[i], func(err error) { r.lose(i, err) }); err != nil {
			return fmt.Errorf("set up call %d of %d: %w", i+1, n, err)
		}
	}
	return nil
}

// dialOne makes one call and returns when it is ready. lost is called, perhaps more than once, when the call ends or something goes
// wrong in it.
func (r *rig) dialOne(l *load, c *call, lost func(error)) error {
	ctx, cancel := context.WithTimeout(r.alive, connectTimeout)
	defer cancel()
	began := time.Now()
	open, ready := make(chan struct{}), make(chan struct{}, 1)
	var offer string
	var err error
	c.peer, offer, err = r.api.Offer(r.alive, media.Handlers{
		Open: func() { close(open) },
		Message: func(raw []byte) {
			event, err := realtime.Decode(raw)
			switch {
			case err != nil:
				lost(err)
			case event.Type == "bridge.ready":
				select {
				case ready <- struct{}{}:
					l.ready.add(time.Since(began))
				default:
				}
			case event.Type == realtime.TypeAudioTranscriptDelta:
				if at, ok := spokenAt(event.Delta); ok {
					l.words.arrived(at)
				}
			case event.Type == realtime.TypeError && event.Error != nil:
				lost(event.Error)
			case event.Type == "bridge.ended":
				var ended struct{ Reason string }
				_ = json.Unmarshal(raw, &ended) // it has been decoded
				lost(errors.New("the bridge ended it: " + ended.Reason))
			}
		},
		State: func(s media.State) {
			if s == media.StateFailed || s == media.StateClosed {
				lost(fmt.Errorf("connection %s", s))
			}
		},
	})
	if err != nil {
		return err
	}
	made, err := r.client.CreateCall(ctx, offer, []byte(`{"type":"realtime","model":"`+offeredModel+`"}`))
	c.id = made.ID
	if err != nil {
		return err
	}
	if err := c.peer.Accept(ctx, made.Answer); err != nil {
		return err
	}
	flow := new(media.Flow)
	flow.Open()
	c.all.Go(func() { _ = c.peer.Forward(r.alive, echoed{&l.audio}, flow) }) // it ends with the call
	for _, done := range []chan struct{}{open, ready} {
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w", context.Cause(ctx))
		}
	}
	select {
	case c.words.session = <-r.sessions:
		c.words.name = c.id
		return nil
	default:
		return errors.New("it is ready without a session upstream")
	}
}

// send makes all calls send until ctx ends; the channel is closed when nothing more is sent.
func (r *rig) send(ctx context.Context, l *load, events int) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all sync.WaitGroup
		var audio, words []func()
		for i, c := range r.calls {
			// A packet that cannot be sent counts as lost; whether the call is still up is checked elsewhere.
			audio = append(audio, func() { _ = c.peer.WriteAudio(c.next(&l.audio)) })
			// Real answers do not end at the same moment, so these do not either.
			c.words.events = i * answerEvents / len(r.calls)
			words = append(words, func() { c.words.speak(l.words.sentNow()) })
		}
		all.Go(func() { l.pace(ctx, frame, audio) })
		if events > 0 {
			all.Go(func() { l.pace(ctx, time.Second/time.Duration(events), words) })
		}
		all.Wait()
	}()
	return done
}

// lose ends the measurement, because a call has ended.
func (r *rig) lose(i int, err error) {
	r.end(fmt.Errorf("call %d of %d was lost: %w", i+1, len(r.calls), err))
}

// explain adds to an error how the bridge has ended, or what it said.
func (r *rig) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, errBridgeEnded) {
		return err
	}
	select {
	case <-r.bridge.exited:
		return fmt.Errorf("%w: %w", r.bridge.died(), err)
	case <-time.After(exitWait):
		return fmt.Errorf("%w%s", err, r.bridge.said())
	}
}

// close hangs up, ends everything and joins it. What ends calls from now on is no failure.
func (r *rig) close() error {
	r.end(nil)
	var errs []error
	for _, c := range r.calls {
		errs = append(errs, c.hangUp(r.client))
	}
	if r.bridge != nil {
		errs = append(errs, r.bridge.close())
	}
	// A connection that was dialled but never used would hold up the server.
	r.pool.CloseIdleConnections()
	if r.upstream != nil {
		r.stop()
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := r.upstream.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop the upstream: %w", err), r.upstream.Close())
		}
		r.all.Wait()
	}
	return errors.Join(append(errs, r.api.Close())...)
}
