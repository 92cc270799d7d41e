// Package bench measures how many calls a machine carries: at which latency, with how much processor time and memory.
//
// It has both ends of every call in one process, so that one clock stamps and reads each packet, and runs the bridge as
// a process of its own, whose resource use the operating system reports:
//
//	this process            another process            this process
//	browsers  ◀──UDP──▶     the bridge     ◀──UDP──▶   the upstream, which sends the audio back and speaks
//
// The upstream is the simulator, over either transport. Over WebSocket no packet comes back, as sound is decoded and
// encoded on the way: then audio has no times, and what is measured is what that costs.
package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/prometheus/procfs"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
)

const (
	warmUp       = time.Second            // how long packets flow before they count
	late         = 500 * time.Millisecond // how long those of the measured time may take to arrive
	setUpTimeout = 30 * time.Second       // of the bridge, and of each call
	endTimeout   = 10 * time.Second       // until a call is given up, and the bridge killed
	maxLog       = 8 << 10                // bytes of the bridge's log that an error quotes
	spareCalls   = 16                     // more than measured, because the limits are not under test
	model        = "load"

	// A packet is 20 ms of Opus: the header of one full-band frame (RFC 6716, 3.1), and the time of sending.
	frame       = 20 * time.Millisecond
	frameTicks  = 960 // of RTP timestamps (RFC 7587, 4.2)
	payloadSize = 80
	header      = 0xf8

	wordsPerSecond = 5 // events with the model's words in each call, somewhat more than people speak
	answerWords    = 256
	word           = " and a word" // behind the time of sending
	timeBytes      = 10
	pcmRate        = 24000 // samples a second of sound over WebSocket
)

// Config says what is measured.
type Config struct {
	Calls    []int         // numbers of simultaneous calls, one round each; up to 5000
	Duration time.Duration // measured in each round: 1 ms to an hour
	Socket   bool          // whether the bridge reaches the upstream over WebSocket
	Bridge   Command
	Version  string          // of the bridge, for the report
	Progress func(calls int) // called before each round
}

// Command says how to start the bridge: a program that serves, prints its address and reads its settings from the
// environment.
type Command struct {
	Path     string
	Args     []string // without the program's name
	Environ  []string // added to the settings of the measurement
	Dir      string   // where the bridge's folder is made; empty means the system's temporary folder
	Database string   // address of its database; empty means an SQLite file in its folder
}

// Report is the result. Its JSON form is for programs, WriteTable for people.
type Report struct {
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	Machine   Machine   `json:"machine"`
	Seconds   float64   `json:"seconds"` // measured in each round
	Socket    bool      `json:"websocket_upstream"`
	Rounds    []Round   `json:"rounds"`
	Notes     []string  `json:"notes"` // reasons to doubt the figures
}

// Machine is the machine that ran both the load generator and the bridge.
type Machine struct {
	OS    string `json:"goos"`
	Arch  string `json:"goarch"`
	Cores int    `json:"cores"`
	Go    string `json:"go_version"`
}

// Round is a number of simultaneous calls.
type Round struct {
	Calls int `json:"calls"`
	// Audio are packets from the browser through the bridge to the upstream and back again, zero over WebSocket; Words
	// are the events with the model's words, on their way to the browser.
	Audio Path `json:"audio"`
	Words Path `json:"words"`
	// Ready is the time from the offer until the caller is heard.
	Ready Path `json:"ready"`
	// Bridge is nil where the system does not report what processes use.
	Bridge *Process `json:"bridge"`
	// LateP99 is how far the load generator was behind its schedule, in µs.
	LateP99 float64 `json:"generator_late_p99_us"`
}

// Path is what happened to packets or events. Times are in µs.
type Path struct {
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
	Sent int     `json:"sent"`
	Lost int     `json:"lost"`
}

// Process is what the bridge used: CPU in percent of one core, resident memory in KiB before the first call and with
// all of them.
type Process struct {
	CPU        float64 `json:"cpu_percent"`
	CPUPerCall float64 `json:"cpu_percent_per_call"`
	IdleRSS    int64   `json:"idle_rss_kib"`
	RSS        int64   `json:"rss_kib"`
	RSSPerCall float64 `json:"rss_kib_per_call"`
}

// Run measures. It fails when a call cannot be made or is lost, when the bridge ends, and when ctx ends; the report
// then has what was measured until then.
func Run(ctx context.Context, c Config) (Report, error) {
	report := Report{
		Version: c.Version, StartedAt: time.Now().UTC().Truncate(time.Second),
		Machine: Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()},
		Seconds: c.Duration.Seconds(), Socket: c.Socket, Rounds: []Round{}, Notes: []string{},
	}
	if c.Duration < time.Millisecond || c.Duration > time.Hour {
		return report, fmt.Errorf("a duration of %s: it must be up to 3600 s", c.Duration)
	}
	for _, n := range c.Calls {
		if n < 1 || n > 5000 {
			return report, fmt.Errorf("%d calls at once: it must be 1 to 5000", n)
		}
	}
	for _, n := range c.Calls {
		c.Progress(n)
		round, err := measure(ctx, c, n)
		if err != nil {
			return report, fmt.Errorf("measure %d calls: %w", n, err)
		}
		report.Rounds = append(report.Rounds, round)
		report.Notes = append(report.Notes, round.doubts()...)
	}
	return report, nil
}

// measure measures n calls at once.
func measure(ctx context.Context, c Config, n int) (round Round, err error) {
	r := &rig{epoch: time.Now(), sessions: make(chan *simulator.Session, 1)}
	r.alive, r.end = context.WithCancelCause(ctx)
	defer func() { err = r.close(err) }()

	if err := r.open(c, n); err != nil {
		return round, err
	}
	idle, usageErr := r.bridge.usage()
	for i := range n {
		if err := r.dial(i, n); err != nil {
			return round, fmt.Errorf("set up call %d of %d: %w", i+1, n, err)
		}
	}
	sending, stop := context.WithCancel(r.alive)
	defer stop()
	r.send(sending)
	if err := r.wait(warmUp); err != nil {
		return round, err
	}
	began := time.Now()
	before, _ := r.bridge.usage() // if idle was read
	from := r.now() + int64(frame)
	r.to.Store(from + int64(c.Duration))
	r.from.Store(from)
	if err := r.wait(frame + c.Duration); err != nil {
		return round, err
	}
	after, _ := r.bridge.usage()
	seconds := time.Since(began).Seconds()
	if err := r.wait(late); err != nil {
		return round, err
	}
	stop()
	r.senders.Wait()
	round = Round{Calls: n, Audio: r.audio.path(), Words: r.words.path(), Ready: r.ready.path()}
	round.LateP99 = r.behind.path().P99
	if usageErr == nil {
		round.Bridge = newProcess(n, idle, before, after, seconds)
	}
	return round, nil
}

func newProcess(calls int, idle, before, after usage, seconds float64) *Process {
	cpu, n := 100*(after.cpu-before.cpu).Seconds()/seconds, float64(calls)
	return &Process{
		CPU: round(cpu, 2), CPUPerCall: round(cpu/n, 3), IdleRSS: idle.rss, RSS: after.rss,
		RSSPerCall: round(float64(after.rss-idle.rss)/n, 1),
	}
}

// round rounds to a number of decimals.
func round(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}

// doubts returns reasons to doubt the figures.
func (r Round) doubts() (all []string) {
	if r.LateP99 > 5000 {
		all = append(all, fmt.Sprintf("%d calls: the load generator was up to %.1f ms behind its schedule (p99): "+
			"the machine is too small or too busy for these figures", r.Calls, r.LateP99/1000))
	}
	if a, w := r.Audio, r.Words; a.Lost+w.Lost > 0 {
		all = append(all, fmt.Sprintf("%d calls: %d of %d packets and %d of %d events were lost",
			r.Calls, a.Lost, a.Sent, w.Lost, w.Sent))
	}
	return all
}

// busy is the share of the machine's processors up to which calls may be added: above it, latency grows.
const busy = 0.6

// capacity says how many calls the machine carries, by processor time and by memory.
func (r Report) capacity() string {
	p := r.Rounds[len(r.Rounds)-1].Bridge
	if p == nil || p.CPUPerCall <= 0 || p.RSSPerCall <= 0 {
		return "CPU and memory are not available: only Linux reports them."
	}
	calls, perGiB := int(busy*100*float64(r.Machine.Cores)/p.CPUPerCall), int((1<<20)/p.RSSPerCall)
	return fmt.Sprintf("At the cost of the last round, %.0f %% of %d cores carry about %d calls, and a GiB of memory %d.",
		100*busy, r.Machine.Cores, calls, perGiB)
}

// WriteTable writes the report, which has a round, for people.
func (r Report) WriteTable(w io.Writer) error {
	var out bytes.Buffer
	m := r.Machine
	fmt.Fprintf(&out, "voicebridge %s bench, %s: %s/%s, %d cores, %s\n",
		r.Version, r.StartedAt.Format(time.RFC3339), m.OS, m.Arch, m.Cores, m.Go)
	back := "which the upstream sends back"
	if r.Socket {
		back = "which go to the upstream over WebSocket"
	}
	fmt.Fprintf(&out, "Each call sends 50 packets of audio a second, %s, and the model %d events with words, for %g s.\n",
		back, wordsPerSecond, r.Seconds)
	out.WriteString("Audio is timed there and back, words from the model to the browser, ready from the offer until the " +
		"caller\nis heard. CPU is in % of one core, memory resident. The load generator (browsers and upstream) shares " +
		"this machine.\n\n")
	t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\t\taudio, ms\t\twords, ms\t\tready, ms\t\tCPU, %\t\t\tmemory\t")
	fmt.Fprintln(t, "calls\tp50\tp99\tp50\tp99\tp50\tp99\tall\tper call\tidle MB\tMB\tKB per call\t")
	for _, l := range r.Rounds {
		audio, used := fmt.Sprintf("%.2f\t%.2f", l.Audio.P50/1e3, l.Audio.P99/1e3), "-\t-\t-\t-\t-"
		if r.Socket {
			audio = "-\t-"
		}
		if p := l.Bridge; p != nil {
			used = fmt.Sprintf("%.1f\t%.2f\t%.1f\t%.1f\t%.0f",
				p.CPU, p.CPUPerCall, float64(p.IdleRSS)/1024, float64(p.RSS)/1024, p.RSSPerCall)
		}
		fmt.Fprintf(t, "%d\t%s\t%.2f\t%.2f\t%.0f\t%.0f\t%s\t\n",
			l.Calls, audio, l.Words.P50/1e3, l.Words.P99/1e3, l.Ready.P50/1e3, l.Ready.P99/1e3, used)
	}
	_ = t.Flush() // into memory
	fmt.Fprintln(&out, "\n"+r.capacity())
	for _, note := range r.Notes {
		fmt.Fprintln(&out, "Doubtful: "+note)
	}
	if _, err := out.WriteTo(w); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// meter takes the times of one kind, and counts what was sent.
type meter struct {
	mu    sync.Mutex
	sent  int
	times []time.Duration
}

func (m *meter) add(sent int, times ...time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent += sent
	m.times = append(m.times, times...)
}

func (m *meter) path() Path {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.times)
	at := func(q float64) float64 {
		if len(m.times) == 0 {
			return 0
		}
		last := max(int(math.Ceil(q*float64(len(m.times)))), 1) - 1
		return round(float64(m.times[last])/1e3, 1)
	}
	return Path{P50: at(0.5), P99: at(0.99), Sent: m.sent, Lost: max(m.sent-len(m.times), 0)}
}

// rig makes calls through a bridge: it has both ends. What is sent between from and to counts, by the time of sending,
// however late it arrives.
type rig struct {
	epoch    time.Time
	from, to atomic.Int64 // ns since epoch
	// audio goes there and back, words come, a call gets ready, and a packet is sent behind its schedule.
	audio, words, ready, behind meter

	api      *rtc.API
	bridge   *bridge
	client   *realtime.Client
	calls    []*call
	sessions chan *simulator.Session // the upstream's end of the call that is being made
	opened   []func() error          // what close closes, the last first
	// speech is what callers say, and sound what the model says with its words; nil if audio is only carried.
	speech [][]byte
	sound  []string
	// alive ends, with its cause, when the bridge or a call does.
	alive   context.Context
	end     context.CancelCauseFunc
	senders sync.WaitGroup
}

// now returns the time in ns since epoch, on the monotonic clock.
func (r *rig) now() int64 { return int64(time.Since(r.epoch)) }

func (r *rig) counts(sent int64) bool {
	from := r.from.Load()
	return from > 0 && sent >= from && sent < r.to.Load()
}

// stamp counts what is sent now, and returns the time to put into it.
func (r *rig) stamp(m *meter) int64 {
	at := r.now()
	if r.counts(at) {
		m.add(1)
	}
	return at
}

// arrived takes the time of what was sent at that time.
func (r *rig) arrived(m *meter, sent int64) {
	if now := r.now(); r.counts(sent) {
		m.add(0, time.Duration(now-sent))
	}
}

// wait returns the cause if the measurement ends first.
func (r *rig) wait(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-r.alive.Done():
		return context.Cause(r.alive)
	}
}

// open starts the upstream and the bridge.
func (r *rig) open(c Config, calls int) (err error) {
	if r.api, err = rtc.New(rtc.Config{Loopback: true, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	r.opened = append(r.opened, r.api.Close)
	host, err := r.startUpstream(calls)
	if err != nil {
		return err
	}
	upstream := []string{"VOICEBRIDGE_UPSTREAM=openai", "OPENAI_BASE_URL=http://" + host + "/v1"}
	if c.Socket {
		r.speech = simulator.UserSpeech()
		if r.sound, err = spokenSound(r.speech); err != nil {
			return err
		}
		const socket = `VOICEBRIDGE_UPSTREAMS=[{"name":"load","profile":"openai","transport":"websocket","url":%q}]`
		upstream = []string{fmt.Sprintf(socket, "ws://"+host+"/v1/realtime")}
	}
	if r.bridge, err = startBridge(r.alive, c.Bridge, upstream, calls); err != nil {
		return err
	}
	go func() {
		<-r.bridge.exited
		r.end(errors.New("the bridge has ended"))
	}()
	pool := &http.Transport{}
	r.opened = append(r.opened, func() error { pool.CloseIdleConnections(); return nil })
	client := &http.Client{Transport: pool}
	r.client = &realtime.Client{BaseURL: r.bridge.url + "/v1", HTTP: client, Timeout: setUpTimeout}
	return nil
}

// startUpstream serves a simulator on a port of loopback, and returns its address. It sends audio back as it comes.
func (r *rig) startUpstream(calls int) (string, error) {
	sim, err := simulator.New(simulator.Config{
		API: r.api, Models: []string{model}, MaxSessions: calls + spareCalls, Deaf: true,
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
	server := &http.Server{Handler: sim, ReadHeaderTimeout: endTimeout, ErrorLog: quiet}
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

// dial makes the call i of n and returns when it is ready.
func (r *rig) dial(i, n int) error {
	ctx, cancel := context.WithTimeout(r.alive, setUpTimeout)
	defer cancel()
	// They do not speak all at once, and answers do not end at the same moment.
	c := &call{rig: r, ready: make(chan struct{}), frames: i, words: i * answerWords / n}
	c.lost = func(err error) { r.end(fmt.Errorf("call %d of %d was lost: %w", i+1, n, err)) }
	r.calls = append(r.calls, c)
	began := time.Now()
	peer, offer, err := r.api.Offer(r.alive, media.Handlers{Message: c.read, State: func(s media.State) {
		if s == media.StateFailed || s == media.StateClosed {
			c.lost(fmt.Errorf("connection %s", s))
		}
	}})
	if err != nil {
		return err
	}
	c.peer = peer
	made, err := r.client.CreateCall(ctx, offer, []byte(`{"type":"realtime","model":"`+model+`"}`))
	if err != nil {
		return err
	}
	c.id = made.ID
	if err := peer.Accept(ctx, made.Answer); err != nil {
		return err
	}
	flow := new(media.Flow)
	flow.Open()
	c.all.Go(func() { _ = peer.Forward(r.alive, c, flow) }) // it ends with the call
	select {
	case <-c.ready:
		r.ready.add(0, time.Since(began))
	case <-ctx.Done():
		return fmt.Errorf("it is not ready: %w", context.Cause(ctx))
	}
	select {
	case c.session = <-r.sessions:
		return nil
	default:
		return errors.New("it is ready without a session upstream")
	}
}

// send has all calls send until ctx ends.
func (r *rig) send(ctx context.Context) {
	var audio, words []func()
	for _, c := range r.calls {
		// A packet that cannot be sent counts as lost; whether the call is still up is checked elsewhere.
		audio = append(audio, func() { _ = c.peer.WriteAudio(c.next()) })
		words = append(words, c.speak)
	}
	r.senders.Go(func() { r.pace(ctx, frame, audio) })
	r.senders.Go(func() { r.pace(ctx, time.Second/wordsPerSecond, words) })
}

// pace calls each function once in every interval until ctx ends, spread evenly over it and on schedule even when it is
// behind: a slow receiver must not slow the sender, or the worst latencies would never show. One goroutine serves all,
// because a timer for each would cost more than the packets.
func (r *rig) pace(ctx context.Context, every time.Duration, calls []func()) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for start := r.now(); ctx.Err() == nil; start += int64(every) {
		for i, call := range calls {
			due := start + int64(every)*int64(i)/int64(len(calls))
			if wait := due - r.now(); wait > 0 {
				timer.Reset(time.Duration(wait))
				select {
				case <-timer.C:
				case <-ctx.Done():
					return
				}
			}
			if now := r.now(); r.counts(now) {
				r.behind.add(0, time.Duration(now-due))
			}
			call()
		}
	}
}

// close hangs up, ends everything and joins it. It adds to an error what the bridge said.
func (r *rig) close(err error) error {
	r.end(nil) // what ends calls from now on is no failure
	r.senders.Wait()
	var errs []error
	for _, c := range r.calls {
		errs = append(errs, c.hangUp())
	}
	if err != nil {
		errs = nil // the calls of a bridge that failed cannot be ended
	}
	if r.bridge != nil {
		err = r.bridge.close(err)
	}
	errs = append(errs, err)
	for _, closed := range slices.Backward(r.opened) {
		errs = append(errs, closed())
	}
	return errors.Join(errs...)
}

// call is the caller's end of one call, and what the upstream's end says in it.
type call struct {
	rig   *rig
	peer  *rtc.Peer
	id    string
	ready chan struct{}
	lost  func(error) // more than once, perhaps
	all   sync.WaitGroup

	frames  int // sent so far
	packet  media.Packet
	payload [payloadSize]byte

	// The rest belongs to the session's goroutine: a model that never stops speaking.
	session interface {
		Emit(event map[string]any) // in Do only
		Do(f func())
	}
	answers, words int
	transcript     strings.Builder
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
			c.rig.arrived(&c.rig.words, at)
		}
	case event.Type == realtime.TypeError && event.Error != nil:
		c.lost(event.Error)
	case event.Type == "bridge.ended":
		var ended struct{ Reason string }
		_ = json.Unmarshal(raw, &ended) // it has been decoded
		c.lost(errors.New("the bridge ended it: " + ended.Reason))
	}
}

// next returns the caller's next packet.
func (c *call) next() *media.Packet {
	c.frames++
	payload := c.payload[:]
	if speech := c.rig.speech; speech != nil {
		payload = speech[c.frames%len(speech)]
	} else {
		payload[0] = header
		binary.BigEndian.PutUint64(payload[1:], uint64(c.rig.stamp(&c.rig.audio))) // read again by WriteAudio
	}
	sequence, timestamp := uint16(c.frames), uint32(c.frames*frameTicks) // both wrap as in RTP
	c.packet = media.Packet{Source: 1, Sequence: sequence, Timestamp: timestamp, Payload: payload}
	return &c.packet
}

// WriteAudio takes a packet that came back.
func (c *call) WriteAudio(packet *media.Packet) error {
	if p := packet.Payload; len(p) == payloadSize && p[0] == header {
		c.rig.arrived(&c.rig.audio, int64(binary.BigEndian.Uint64(p[1:]))) // written by next
	}
	return nil
}

// hangUp ends the call at both ends and joins its goroutines, within endTimeout.
func (c *call) hangUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	var err error
	if c.id != "" {
		err = c.rig.client.Hangup(ctx, c.id)
	}
	if c.peer != nil {
		err = errors.Join(err, c.peer.Close())
	}
	c.all.Wait()
	return err
}

// object is a JSON object.
type object = map[string]any

// speak has the model say its next word, stamped with the time of sending.
func (c *call) speak() {
	text := fmt.Sprintf("%0*s", timeBytes, strconv.FormatInt(c.rig.stamp(&c.rig.words), 36)) + word
	c.session.Do(func() {
		if c.transcript.Len() == 0 {
			c.begin()
		}
		c.transcript.WriteString(text)
		c.emit(realtime.TypeAudioTranscriptDelta, object{"delta": text})
		if sound := c.rig.sound; sound != nil {
			c.emit(realtime.TypeOutputAudioDelta, object{"delta": sound[c.words%len(sound)]})
		}
		if c.words++; c.words >= answerWords {
			c.finish()
		}
	})
}

func (c *call) begin() {
	var previous any
	if c.answers > 0 {
		previous = c.name("item")
	}
	c.answers++
	item := c.item("in_progress")
	c.respond(realtime.TypeResponseCreated, realtime.ResponseInProgress)
	c.emit(realtime.TypeOutputItemAdded, object{"item": item})
	c.emit(realtime.TypeItemAdded, object{"previous_item_id": previous, "item": item})
	if c.rig.sound == nil {
		c.emit(realtime.TypeOutputBufferStarted, object{})
	}
}

func (c *call) finish() {
	transcript := c.transcript.String()
	item := c.item("completed", object{"type": "output_audio", "transcript": transcript})
	c.emit(realtime.TypeAudioTranscriptDone, object{"transcript": transcript})
	c.emit(realtime.TypeOutputItemDone, object{"item": item})
	c.emit(realtime.TypeItemDone, object{"item": item})
	c.respond(realtime.TypeResponseDone, realtime.ResponseCompleted, item)
	if c.rig.sound == nil {
		c.emit(realtime.TypeOutputBufferStopped, object{})
	}
	c.words = 0
	c.transcript.Reset()
}

// name returns the id of what the current answer has of a kind.
func (c *call) name(kind string) string { return fmt.Sprintf("%s_%s_%d", kind, c.id, c.answers) }

// emit sends an event of the current response, about its only item.
func (c *call) emit(kind string, event object) {
	event["type"], event["response_id"], event["item_id"] = kind, c.name("resp"), c.name("item")
	event["output_index"], event["content_index"] = 0, 0
	c.session.Emit(event)
}

func (c *call) item(status string, content ...any) object {
	return object{
		"id": c.name("item"), "object": "realtime.item", "type": realtime.ItemMessage, "role": "assistant",
		"status": status, "content": slices.Concat([]any{}, content),
	}
}

func (c *call) respond(kind, status string, output ...any) {
	c.session.Emit(object{"type": kind, "response": object{
		"object": "realtime.response", "id": c.name("resp"), "status": status, "output": slices.Concat([]any{}, output),
	}})
}

// spokenAt returns the time in the text of an event.
func spokenAt(delta string) (at int64, ok bool) {
	if len(delta) != timeBytes+len(word) {
		return 0, false
	}
	at, err := strconv.ParseInt(delta[:timeBytes], 36, 64)
	return at, err == nil
}

// spokenSound returns speech as an upstream sends it over WebSocket, in pieces that last as long as the time between
// two words.
func spokenSound(speech [][]byte) (pieces []string, err error) {
	decoder, err := opus.NewDecoder(pcmRate)
	if err != nil {
		return nil, err
	}
	var samples []byte
	for _, packet := range speech {
		decoded, err := decoder.Decode(packet)
		if err != nil {
			return nil, err
		}
		samples = pcm.Linear.Append(samples, decoded)
	}
	for piece := range slices.Chunk(samples, pcmRate/wordsPerSecond*2) {
		pieces = append(pieces, base64.StdEncoding.EncodeToString(piece))
	}
	return pieces, nil
}

// bridge is the running process.
type bridge struct {
	cmd    *exec.Cmd
	url    string
	dir    string
	stop   context.CancelFunc
	log    bytes.Buffer  // read it when the process has ended
	exited chan struct{} // closed when it has ended
}

// firstOutput takes what a process prints first.
type firstOutput chan string

func (f firstOutput) Write(p []byte) (int, error) {
	select {
	case f <- string(p[:min(len(p), 200)]):
	default:
	}
	return len(p), nil
}

// startBridge starts the bridge in a folder of its own, with an empty database and room for calls, and returns when it
// serves. Unless it is nil, the bridge must be closed.
func startBridge(ctx context.Context, c Command, upstream []string, calls int) (*bridge, error) {
	dir, err := os.MkdirTemp(c.Dir, "voicebridge-load-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the bridge: %w", err)
	}
	b := &bridge{dir: dir, exited: make(chan struct{})}
	// It lives until close, even if ctx ends: calls are hung up first.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop = stop
	b.cmd = exec.CommandContext(running, c.Path, c.Args...)
	limit := strconv.Itoa(calls + spareCalls)
	b.cmd.Env = slices.Concat([]string{
		"VOICEBRIDGE_LISTEN=127.0.0.1:0", "VOICEBRIDGE_LOG__LEVEL=error", "VOICEBRIDGE_SHUTDOWN_SECONDS=5",
		"VOICEBRIDGE_LIMITS__MAX_CALLS=" + limit, "VOICEBRIDGE_LIMITS__MAX_CALLS_PER_OWNER=" + limit,
		"VOICEBRIDGE_LIMITS__SETUPS_PER_MINUTE_PER_IP=100000", "OPENAI_API_KEY=load",
		"DATABASE_URL=" + cmp.Or(c.Database, "sqlite:load.db"),
	}, upstream, c.Environ)
	printed := make(firstOutput, 1)
	b.cmd.Dir, b.cmd.Stderr, b.cmd.Stdout, b.cmd.WaitDelay = dir, &b.log, printed, endTimeout
	b.cmd.Cancel = func() error {
		if b.cmd.Process.Signal(syscall.SIGTERM) != nil {
			return b.cmd.Process.Kill() // not every system can interrupt a process
		}
		return nil
	}
	if err := b.cmd.Start(); err != nil {
		stop()
		return nil, errors.Join(fmt.Errorf("start the bridge: %w", err), os.RemoveAll(dir))
	}
	go func() {
		_ = b.cmd.Wait() // the state says it
		close(b.exited)
	}()
	return b, b.await(ctx, printed)
}

var address = regexp.MustCompile(`http://\S+`)

// await waits until the bridge has printed its address.
func (b *bridge) await(ctx context.Context, printed firstOutput) error {
	select {
	case text := <-printed:
		if b.url = address.FindString(text); b.url == "" {
			return fmt.Errorf("the bridge printed %q and no address", text)
		}
		return nil
	case <-b.exited:
		return errors.New("the bridge has ended")
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(setUpTimeout):
		return fmt.Errorf("the bridge printed no address in %s", setUpTimeout)
	}
}

// close stops the process, kills it if it does not end, and removes its folder. It adds to an error what the bridge
// said.
func (b *bridge) close(err error) error {
	b.stop()
	<-b.exited
	if said := bytes.TrimSpace(b.log.Bytes()); err != nil && !errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%w (the bridge: %s)\n%s", err, b.cmd.ProcessState, said[max(0, len(said)-maxLog):])
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// usage is what a process has used so far: time of all its threads, and resident memory in KiB.
type usage struct {
	cpu time.Duration
	rss int64
}

// usage returns what the bridge has used so far, according to /proc. It fails on systems other than Linux.
func (b *bridge) usage() (usage, error) {
	process, err := procfs.NewProc(b.cmd.Process.Pid)
	if err != nil {
		return usage{}, fmt.Errorf("find process: %w", err)
	}
	stat, errStat := process.Stat()
	status, errStatus := process.NewStatus()
	if err := errors.Join(errStat, errStatus); err != nil {
		return usage{}, fmt.Errorf("read what a process uses: %w", err)
	}
	// The same on all Linux architectures: USER_HZ, proc(5).
	const tick = 10 * time.Millisecond
	return usage{cpu: time.Duration(stat.UTime+stat.STime) * tick, rss: int64(status.VmRSS >> 10)}, nil // below 2^63
}
