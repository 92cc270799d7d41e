package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime/media"
	"voicebridge/realtime/realtimetest/livetest"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
)

// rig is voicebridge in its own process between a simulator and callers, both of which
// belong to the test.
type rig struct {
	t        *testing.T
	ctx      context.Context
	database string
	dir      string // in which the program runs, also after a restart
	address  string // where it listens after a restart
	environ  []string
	token    string // of the client; empty where none is needed
	sim      *simulator.Server
	live     *livetest.Server
	api      *rtc.API // of the callers
	dcid     string   // the stream of their data channels, if not announced
	socket   bool     // the simulator is reached over WebSocket
	another  bool     // calls go to another upstream than the simulator
	*program

	calling sync.Mutex                       // one set-up at a time, so that each knows its session
	faults  atomic.Pointer[simulator.Faults] // for the next session
	hangUps sync.Map                         // ids of the sessions that were asked to end
	holding atomic.Pointer[chan struct{}]    // if set, hang-ups wait until it is closed
	down    atomic.Pointer[string]           // the path of the upstream that is out of order
	resting int                              // goroutines of the process without calls
}

type rigConfig struct {
	database  string // if empty, a new SQLite database
	simulator simulator.Config
	environ   []string
	stream    uint16 // of the callers' data channels; they announce them if it is 0
	socket    bool   // calls reach the simulator over WebSocket
	upstreams string // the setting, in which {upstream} stands for the simulator's address
}

// The simulator as an upstream, over each transport.
const (
	bySocket = `{"name":"spoken","profile":"realtime","url":"{upstream}/realtime","api_key_env":"OPENAI_API_KEY"}`
	byWebRTC = `{"name":"relayed","profile":"openai","url":"{upstream}/realtime/calls"}`
)

// Settings of every rig: tests call more often than people do.
const rigSettings = "limits:\n  setups_per_minute_per_ip: 100000\n"

func newRig(t *testing.T, cfg rigConfig) *rig {
	t.Helper()
	r := prepareRig(t, cfg)
	r.start()
	return r
}

// prepareRig makes all of a rig except the program.
func prepareRig(t *testing.T, cfg rigConfig) *rig {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx, database: cfg.database, dir: t.TempDir(), address: keptAddress(t), socket: cfg.socket}
	if r.database == "" {
		r.database = persistencetest.SQLiteURL(t)
	}
	if cfg.stream != 0 {
		r.dcid = strconv.Itoa(int(cfg.stream))
	}
	r.faults.Store(new(simulator.Faults))
	var err error
	if r.api, err = rtc.New(rtc.Config{Loopback: true, DataChannel: cfg.stream}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.api.Close(); err != nil {
			t.Errorf("close callers: %v", err)
		}
	})
	upstream := r.simulate(cfg.simulator)
	r.environ = append([]string{
		"DATABASE_URL=" + r.database, "VOICEBRIDGE_LISTEN=127.0.0.1:0", "VOICEBRIDGE_CONFIG=" + write(t, rigSettings),
		"OPENAI_BASE_URL=" + upstream, "OPENAI_API_KEY=key-of-the-tests",
		// A lost browser does not come back, unless a test says so.
		"VOICEBRIDGE_CALLS__GRACE_SECONDS=0", "VOICEBRIDGE_CALLS__CLOSE_GRACE_SECONDS=0",
	}, cfg.environ...)
	if cfg.upstreams == "" && r.socket {
		cfg.upstreams = "[" + bySocket + "]"
	}
	if cfg.upstreams != "" {
		r.environ = append(r.environ, "VOICEBRIDGE_UPSTREAMS="+strings.ReplaceAll(cfg.upstreams, "{upstream}", upstream))
	}
	return r
}

// simulate starts the upstream and returns its address.
func (r *rig) simulate(cfg simulator.Config) string {
	r.t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg.APIKey = "key-of-the-tests"
	if cfg.FaultsFor == nil {
		cfg.FaultsFor = func(int) simulator.Faults { return *r.faults.Load() }
	}
	if cfg.Script == nil {
		cfg.Script = rigScript()
	}
	if cfg.Pace == (simulator.Pace{}) {
		cfg.Pace = quick
	}
	var err error
	if r.sim, err = simulator.New(cfg); err != nil {
		r.t.Fatal(err)
	}
	cfg.API = r.api
	r.live = livetest.New(cfg)
	ctx, stop := context.WithCancel(r.ctx)
	done := make(chan error, 1)
	go func() { done <- r.sim.Run(ctx) }()
	ts := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if id, ok := strings.CutSuffix(strings.TrimPrefix(q.URL.Path, "/v1/realtime/calls/"), "/hangup"); ok {
			r.hangUps.Store(id, true)
			if held := r.holding.Load(); held != nil {
				select {
				case <-*held:
				case <-r.ctx.Done():
				}
			}
		}
		if down := r.down.Load(); down != nil && q.URL.Path == *down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if strings.HasPrefix(q.URL.Path, "/v1/live/") {
			r.live.ServeHTTP(w, q)
			return
		}
		r.sim.ServeHTTP(w, q)
	}))
	ts.Config.SetKeepAlivesEnabled(false) // an idle connection would count as goroutines of the process
	ts.Start()
	r.t.Cleanup(func() {
		stop()
		r.live.Close()
		if err, _ := testkit.Receive(r.t, "the end of the simulator", done); err != nil {
			r.t.Errorf("simulator: %v", err)
		}
		ts.Close()
		if !r.t.Failed() {
			return
		}
		var sessions bytes.Buffer
		for _, s := range r.sim.Sessions() {
			received, sent := written(s.Received()), written(s.Sent())
			fmt.Fprintf(&sessions, "%s received:\n%s%s sent:\n%s", s.ID(), received, s.ID(), sent)
			r.t.Logf("session %s got %d packets of audio, played %d and ended by %v; what it received and sent ends:\n%s\n%s",
				s.ID(), s.AudioPackets(), s.PacketsPlayed(), s.Err(), gist(received), gist(sent))
		}
		keep(r.t, "sessions.txt", sessions.Bytes())
	})
	return ts.URL + "/v1"
}

// quick is the pace of most tests.
var quick = simulator.Pace{Think: 20 * time.Millisecond, Step: 5 * time.Millisecond, Transcript: 30 * time.Millisecond}

// start starts voicebridge; a restart uses the same address.
func (r *rig) start() {
	r.t.Helper()
	r.launch()
	r.rest()
}

// launch is start without a look at the process at rest.
func (r *rig) launch() {
	r.t.Helper()
	r.program = launchIn(r.t, r.dir, append(slices.Clone(r.environ), "VOICEBRIDGE_LISTEN="+r.address), "serve")
}

// ports counts the addresses of this process, from a number that another test process is
// unlikely to use.
var ports = func() *atomic.Int64 {
	n := new(atomic.Int64)
	n.Store(int64(os.Getpid()) * 97)
	return n
}()

// keptAddress is a free address whose port is below those that systems assign by
// themselves, so nobody takes it while a program that listened there is restarted. Another
// test process that counts through the same numbers sees by the UDP port that it is taken.
func keptAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+ports.Add(1)%20_000)
		mark, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			must(t, mark.Close())
			continue
		}
		must(t, l.Close())
		t.Cleanup(func() { must(t, mark.Close()) })
		return address
	}
	t.Fatal("no address is free")
	return ""
}

// What the callers of a rig say, and the answers.
const (
	spokenWords  = "What time is it?"
	spokenAnswer = "It is noon."
	secondWords  = "And where?"
	secondAnswer = "Here."
	chartPlease  = "Draw a chart."
	chartAndSay  = "Say that you draw a chart, and do."
	chartAnswer  = "There it is."
	waitPlease   = "Ask my tool."
	countPlease  = "Count."
	countWords   = 900
)

// rigScript answers briefly, counts forever, draws, and calls the tool ask_me.
func rigScript() *simulator.Script {
	var count strings.Builder
	for i := range countWords {
		fmt.Fprintf(&count, "n%d ", i)
	}
	chart := simulator.Call{Name: "create_pie_chart", Arguments: `{"title":"A","data":[{"label":"a","value":1},{"label":"b","value":2}]}`}
	is := func(text string) *regexp.Regexp { return regexp.MustCompile("^" + regexp.QuoteMeta(text) + "$") }
	return &simulator.Script{
		Typed: []simulator.Rule{
			{Match: is(countPlease), Reply: simulator.Reply{Say: strings.TrimSpace(count.String())}},
			{Match: is(chartPlease), Reply: simulator.Reply{Calls: []simulator.Call{chart}, Then: chartAnswer}},
			{Match: is(chartAndSay), Reply: simulator.Reply{Say: "I draw.", Calls: []simulator.Call{chart}, Then: chartAnswer}},
			{Match: is(waitPlease), Reply: simulator.Reply{Say: "Wait.", Calls: []simulator.Call{{Name: "ask_me", Arguments: `{"a":1}`}}, Then: "It said so."}},
			{Match: is("What did I say?"), Reply: simulator.Reply{Say: "You said: {previous}"}},
			{Match: regexp.MustCompile("^Echo: "), Reply: simulator.Reply{Say: "Yes."}},
		},
		Otherwise: simulator.Reply{Say: "Well."},
		Spoken:    []simulator.Reply{{Transcript: spokenWords, Say: spokenAnswer}, {Transcript: secondWords, Say: secondAnswer}},
	}
}

// asksMe declares the client tool ask_me, and hears callers to the end even if a busy
// machine causes pauses in their speech.
const asksMe = `{"type":"realtime","audio":{"input":{"turn_detection":{"type":"server_vad","silence_duration_ms":2000}}},"tools":[{"type":"function","name":"ask_me","description":"Asks.","parameters":{"type":"object","properties":{"a":{"type":"number"}}}}]}`

// request says how a caller calls.
type request struct {
	thread   string
	takeover bool
	session  string // JSON
	faults   simulator.Faults
	record   bool
	// answer changes the SDP before the browser accepts it.
	answer func(string) string
}

// dial starts a call and connects to it.
func (r *rig) dial(t *testing.T, q request) (c *caller) {
	t.Helper()
	status, body := insist(t, func() (status int, body string) {
		c, status, body = r.try(t, q)
		return status, body
	})
	if status != http.StatusCreated {
		t.Fatalf("call: %d %s", status, body)
	}
	return c
}

// insist sends a request again, as clients are asked to, while another process has the call and does not
// answer in time. On a busy machine that happens.
func insist(t *testing.T, ask func() (status int, body string)) (status int, body string) {
	t.Helper()
	testkit.Eventually(t, "an answer of the process that has the call", func() bool {
		status, body = ask()
		return status != http.StatusServiceUnavailable || !strings.Contains(body, `"instance_unreachable"`)
	})
	return status, body
}

// try is dial for calls that may be refused.
func (r *rig) try(t *testing.T, q request) (c *caller, status int, body string) {
	t.Helper()
	c = newCaller(t, r)
	offer := c.offer()
	path := fmt.Sprintf("/v1/realtime/calls?dcid=%s&takeover=%t", r.dcid, q.takeover)
	if q.thread != "" {
		path += "&thread_id=" + q.thread
	}
	if c.keeps = q.record; q.record {
		path += "&record=true"
	}
	kind, content := "application/sdp", offer
	if q.session != "" {
		kind, content = callForm(t, offer, q.session)
	}
	got := r.call(t, c, q.faults, path, kind, content)
	body = got.body
	if got.status != http.StatusCreated {
		return c, got.status, body
	}
	c.id = strings.TrimPrefix(got.header.Get("Location"), "/v1/realtime/calls/")
	c.thread = got.header.Get("X-Thread-Id")
	if c.id == "" || c.thread == "" {
		t.Fatalf("call: headers %v", got.header)
	}
	if q.answer != nil {
		body = q.answer(body)
	}
	c.accept(body)
	return c, got.status, body
}

func (r *rig) call(t *testing.T, c *caller, faults simulator.Faults, path, kind, content string) reply {
	t.Helper()
	r.calling.Lock()
	defer r.calling.Unlock()
	r.faults.Store(&faults)
	c.nameless = faults.NoLocation
	before := len(r.sim.Sessions())
	got := r.do(t, http.MethodPost, path, kind, content)
	c.session = r.sessionAfter(t, before, got.status == http.StatusCreated)
	return got
}

// sessionAfter returns the upstream's session after the first of them, nil if there is none. The upstream may make that of a
// call that has begun later.
func (r *rig) sessionAfter(t *testing.T, before int, begun bool) *simulator.Session {
	t.Helper()
	if all := r.sim.Sessions(); len(all) > before {
		return all[len(all)-1]
	}
	if f := r.faults.Load(); !begun || r.another || f.RefuseStatus != 0 || f.HangCreation {
		return nil
	}
	session, err := r.sim.WaitSession(testkit.Context(t, "the upstream's session of a call"), before+1)
	must(t, err)
	return session
}

// offer makes the peer of a caller in this process.
func (c *caller) offer() string {
	c.t.Helper()
	peer, offer, err := c.rig.api.Offer(c.rig.ctx, c.handlers())
	must(c.t, err)
	c.peer = peer
	c.send = func(data []byte) error { return peer.Send(c.rig.ctx, data) }
	c.t.Cleanup(c.leave)
	return offer
}

// leave closes the tab.
func (c *caller) leave() {
	if err := c.peer.Close(); err != nil {
		c.t.Errorf("close browser: %v", err)
	}
}

// accept connects with the answer.
func (c *caller) accept(answer string) {
	c.t.Helper()
	must(c.t, c.peer.Accept(c.rig.ctx, answer))
	flow := new(media.Flow)
	flow.Open()
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		_ = c.peer.Forward(c.rig.ctx, c, flow) // it ends with the peer
	}()
	c.t.Cleanup(func() { c.leave(); <-heard })
}

func callForm(t *testing.T, offer, session string) (contentType, body string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, part := range []struct{ name, kind, content string }{{"sdp", "application/sdp", offer}, {"session", "application/json", session}} {
		p, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + part.name + `"`}, "Content-Type": {part.kind}})
		if err == nil {
			_, err = io.WriteString(p, part.content)
		}
		must(t, err)
	}
	must(t, w.Close())
	return w.FormDataContentType(), b.String()
}

// reply is the program's response to a request.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r *rig) do(t *testing.T, method, path, kind, body string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(r.ctx, method, r.url+path, strings.NewReader(body))
	must(t, err)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	res, err := unpooled.Do(req)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	return reply{res.StatusCode, res.Header, string(text)}
}

func (r *rig) post(t *testing.T, path, kind, body string) (int, string) {
	t.Helper()
	got := r.do(t, http.MethodPost, path, kind, body)
	return got.status, got.body
}

// Sessions that are renewed on time are so some seconds after they began. They would go on for
// a minute, in which even a slow machine prepares the next one: their end would count as a loss.
const (
	renewedLength = 65 * time.Second
	renewedEarly  = "VOICEBRIDGE_CALLS__RENEW_BEFORE_MINUTES=1"
)
