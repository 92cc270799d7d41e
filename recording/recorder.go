package recording

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"voicebridge/realtime/media"
	"voicebridge/realtime/transcode"
)

const (
	// flushTime is how often packets are written, and so what a crash loses.
	flushTime = time.Second
	// maxWaiting limits the payloads that wait to be written. It is 20 s of both sides as PCM, and minutes of Opus.
	maxWaiting = 2 << 20
)

// State is whether a recording runs.
type State string

// The states of a recording.
const (
	On     State = "on"
	Paused State = "paused"
	Off    State = "off"
)

// Recorder records one call. Its methods are safe for concurrent use.
type Recorder struct {
	call     head
	out      tapeFile
	log      *slog.Logger
	onLost   func(packets int)
	onFailed func()

	mu      sync.Mutex
	started time.Time // zero before the first Run
	stopped time.Time // zero before Stop
	running bool
	since   time.Time // of the last Run
	waiting []taken
	sound   []byte // their payloads
	lost    int    // packets since the last flush

	stop, done chan struct{}
	flushed    flushed // used by the goroutine that flushes
}

// tapeFile is an *os.File.
type tapeFile interface {
	io.Writer
	Sync() error
}

// flushed is what is kept from one flush to the next.
type flushed struct {
	begun bool // the first line is written
	// waiting and sound are what the last flush wrote, for what comes during the next one.
	waiting []taken
	sound   []byte
	block   []byte
	at      time.Duration // of the packet that is being written
	opus    [tracks]media.Sink
}

// newRecorder returns the Recorder of a call, which keeps nothing before Run. onLost is told how many packets could not
// be kept, and onFailed that nothing more is.
func newRecorder(out tapeFile, call head, log *slog.Logger, onLost func(packets int), onFailed func()) *Recorder {
	call.Version = tapeVersion
	r := &Recorder{
		call: call, out: out, log: log, onLost: onLost, onFailed: onFailed, stop: make(chan struct{}),
		done: make(chan struct{}),
	}
	for track := range Track(tracks) {
		r.flushed.opus[track] = transcode.ToOpus(writer{r, track})
	}
	go r.run()
	return r
}

// User returns a Sink that passes packets of the caller on to next, and records those that pass.
func (r *Recorder) User(next media.Sink) media.Sink { return &tap{r, User, next} }

// Assistant is User for packets of the model.
func (r *Recorder) Assistant(next media.Sink) media.Sink { return &tap{r, Assistant, next} }

type tap struct {
	recorder *Recorder
	track    Track
	next     media.Sink
}

func (t *tap) WriteAudio(p *media.Packet) error {
	err := t.next.WriteAudio(p)
	t.recorder.take(t.track, p)
	return err
}

func (r *Recorder) take(track Track, p *media.Packet) {
	at := p.Came
	if at.IsZero() {
		at = time.Now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.running || at.Before(r.since): // also what was held, and said before
	case len(r.sound)+len(p.Payload) > maxWaiting:
		r.lost++
	default:
		kept := taken{track, at.Sub(r.started), *p}
		r.sound = append(r.sound, p.Payload...)
		kept.Payload = r.sound[len(r.sound)-len(p.Payload):]
		r.waiting = append(r.waiting, kept)
	}
}

// Run keeps packets from now on, or keeps none, as in a pause. The recording begins when it is first told to keep them.
func (r *Recorder) Run(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running, r.since = on, time.Now()
	if on && r.started.IsZero() {
		r.started = r.since
	}
}

// Stop ends the recording here, however long it has been silent. Packets that are on their way are kept until Close.
func (r *Recorder) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped.IsZero() {
		r.stopped = time.Now()
	}
}

// Close is Stop, if that was not called, and writes what is waiting.
func (r *Recorder) Close() {
	r.Stop()
	r.Run(false)
	close(r.stop)
	<-r.done
}

func (r *Recorder) run() {
	defer close(r.done)
	tick := time.NewTicker(flushTime)
	defer tick.Stop()
	for last := false; !last; {
		select {
		case <-tick.C:
		case <-r.stop:
			last = true
		}
		if err := r.flush(); err != nil {
			r.log.Error("recording ended", "error", err)
			r.Run(false)
			r.onFailed()
			if !last {
				<-r.stop
			}
			return
		}
	}
}

// flush writes the packets that have come since the last one, as one block.
func (r *Recorder) flush() error {
	f := &r.flushed
	r.mu.Lock()
	waiting, sound := r.waiting, r.sound
	r.waiting, r.sound = f.waiting[:0], f.sound[:0]
	f.waiting, f.sound = waiting, sound
	lost, started, length := r.lost, r.started, time.Since(r.started)
	if !r.stopped.IsZero() {
		length = r.stopped.Sub(r.started)
	}
	r.lost = 0
	r.mu.Unlock()
	if started.IsZero() {
		return nil
	}
	if err := r.begin(started); err != nil {
		return err
	}
	f.block = append(f.block[:0], make([]byte, blockHead)...)
	for _, p := range waiting {
		f.at = p.at
		if f.opus[p.track].WriteAudio(&p.Packet) != nil {
			lost++
		}
	}
	if lost > 0 {
		r.log.Warn("packets not recorded", "packets", lost)
		r.onLost(lost)
	}
	sealBlock(f.block, length)
	_, err := r.out.Write(f.block)
	return errors.Join(err, r.out.Sync())
}

// begin writes the first line, once.
func (r *Recorder) begin(started time.Time) error {
	if r.flushed.begun {
		return nil
	}
	r.flushed.begun, r.call.Started = true, started
	line, err := json.Marshal(r.call)
	if err == nil {
		_, err = r.out.Write(append(line, '\n'))
	}
	return err
}

// writer adds packets of Opus to the block.
type writer struct {
	recorder *Recorder
	track    Track
}

func (w writer) WriteAudio(p *media.Packet) error {
	f := &w.recorder.flushed
	if len(f.block)+len(p.Payload)+2*packetHead > maxBlock {
		return errTape
	}
	f.block = appendPacket(f.block, w.track, f.at, p)
	return nil
}
