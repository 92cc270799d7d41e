package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
)

// rigPatience is how long a test waits for what must come, on a machine that
// does much else.
const rigPatience = 30 * time.Second

// rig is voicebridge in a process of its own between a simulator and callers,
// which belong to the test.
type rig struct {
	t        *testing.T
	ctx      context.Context
	database string
	environ  []string
	sim      *simulator.Server
	api      *rtc.API // of the callers
	*program

	calling sync.Mutex                       // one set-up at a time, so that each knows its session
	faults  atomic.Pointer[simulator.Faults] // of the next session
	hangUps sync.Map                         // the ids of the sessions that were to end
	resting int                              // goroutines of the process without calls
}

type rigConfig struct {
	database  string // an empty SQLite database if empty
	simulator simulator.Config
	environ   []string
}

// settings of every rig: the tests call more often than people do.
const rigSettings = "limits:\n  setups_per_minute_per_ip: 100000\n"

func newRig(t *testing.T, cfg rigConfig) *rig {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx, database: cfg.database}
	if r.database == "" {
		r.database = persistencetest.SQLiteURL(t)
	}
	r.faults.Store(new(simulator.Faults))
	upstream := r.simulate(cfg.simulator)
	var err error
	if r.api, err = rtc.New(rtc.Config{Loopback: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.api.Close(); err != nil {
			t.Errorf("close callers: %v", err)
		}
	})
	r.environ = append([]string{
		"DATABASE_URL=" + r.database, "VOICEBRIDGE_LISTEN=127.0.0.1:0", "VOICEBRIDGE_CONFIG=" + write(t, rigSettings),
		"OPENAI_BASE_URL=" + upstream, "OPENAI_API_KEY=key-of-the-tests",
	}, cfg.environ...)
	r.start()
	return r
}

// simulate starts the upstream and returns its address.
func (r *rig) simulate(cfg simulator.Config) string {
	r.t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg.APIKey = "key-of-the-tests"
	cfg.FaultsFor = func(int) simulator.Faults { return *r.faults.Load() }
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
	ctx, stop := context.WithCancel(r.ctx)
	done := make(chan error, 1)
	go func() { done <- r.sim.Run(ctx) }()
	ts := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if id, ok := strings.CutSuffix(strings.TrimPrefix(q.URL.Path, "/v1/realtime/calls/"), "/hangup"); ok {
			r.hangUps.Store(id, true)
		}
		r.sim.ServeHTTP(w, q)
	}))
	ts.Config.SetKeepAlivesEnabled(false) // a kept connection counts as goroutines of the process
	ts.Start()
	r.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			r.t.Errorf("simulator: %v", err)
		}
		ts.Close()
	})
	return ts.URL + "/v1"
}

// quick is the pace of most tests.
var quick = simulator.Pace{Think: 20 * time.Millisecond, Step: 5 * time.Millisecond, Transcript: 30 * time.Millisecond}

// start starts voicebridge, again if it ran before.
func (r *rig) start() {
	r.t.Helper()
	r.program = launch(r.t, r.environ, "serve")
	_, r.resting = r.load() // while the last of it begins to run
	_, r.resting = r.load()
}

// What the callers of a rig say, and what they are answered.
const (
	spokenWords  = "What time is it?"
	spokenAnswer = "It is noon."
	secondWords  = "And where?"
	secondAnswer = "Here."
	chartPlease  = "Draw a chart."
	chartAnswer  = "There it is."
	waitPlease   = "Ask my tool."
	countPlease  = "Count."
	countWords   = 900
)

// rigScript answers shortly, counts for ever, draws, and calls the tool ask_me.
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
			{Match: is(waitPlease), Reply: simulator.Reply{Say: "Wait.", Calls: []simulator.Call{{Name: "ask_me", Arguments: `{"a":1}`}}, Then: "It said so."}},
			{Match: regexp.MustCompile("^Echo: "), Reply: simulator.Reply{Say: "Yes."}},
		},
		Otherwise: simulator.Reply{Say: "Well."},
		Spoken:    []simulator.Reply{{Heard: spokenWords, Say: spokenAnswer}, {Heard: secondWords, Say: secondAnswer}},
	}
}

// asksMe declares the client tool ask_me.
const asksMe = `{"type":"realtime","tools":[{"type":"function","name":"ask_me","description":"Asks.","parameters":{"type":"object","properties":{"a":{"type":"number"}}}}]}`

// request is how a caller calls.
type request struct {
	thread   string
	takeover bool
	session  string // JSON
	faults   simulator.Faults
	apart    bool // in a process of its own
	absent   bool // he does not take the answer
	// answer changes the SDP before the browser takes it.
	answer func(string) string
}

// dial starts a call and connects to it.
func (r *rig) dial(t *testing.T, q request) *caller {
	t.Helper()
	c, status, body := r.try(t, q)
	if status != http.StatusCreated {
		t.Fatalf("call: %d %s", status, body)
	}
	return c
}

// try is dial for calls that may be refused.
func (r *rig) try(t *testing.T, q request) (c *caller, status int, body string) {
	t.Helper()
	c = newCaller(t, r)
	var offer string
	if q.apart {
		offer = newCallProcess(t, c)
	} else {
		offer = c.offer()
	}
	path := fmt.Sprintf("/v1/realtime/calls?takeover=%t", q.takeover)
	if q.thread != "" {
		path += "&thread_id=" + q.thread
	}
	kind, content := "application/sdp", offer
	if q.session != "" {
		kind, content = callForm(t, offer, q.session)
	}
	res, body := r.call(t, c, q.faults, path, kind, content)
	if res.StatusCode != http.StatusCreated {
		return c, res.StatusCode, body
	}
	c.id = strings.TrimPrefix(res.Header.Get("Location"), "/v1/realtime/calls/")
	c.thread = res.Header.Get("X-Thread-Id")
	if c.id == "" || c.thread == "" {
		t.Fatalf("call: headers %v", res.Header)
	}
	if q.answer != nil {
		body = q.answer(body)
	}
	if !q.absent {
		c.accept(body)
	}
	return c, res.StatusCode, body
}

func (r *rig) call(t *testing.T, c *caller, faults simulator.Faults, path, kind, content string) (*http.Response, string) {
	t.Helper()
	r.calling.Lock()
	defer r.calling.Unlock()
	r.faults.Store(&faults)
	c.nameless = faults.NoLocation
	before := len(r.sim.Sessions())
	res, body := r.do(t, http.MethodPost, path, kind, content)
	if all := r.sim.Sessions(); len(all) > before {
		c.session = all[len(all)-1]
	}
	return res, body
}

// offer makes the peer of a caller in this process.
func (c *caller) offer() string {
	c.t.Helper()
	peer, offer, err := c.rig.api.Offer(c.rig.ctx, c.handlers())
	if err != nil {
		c.t.Fatal(err)
	}
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
	if c.peer == nil {
		line, err := json.Marshal(answer)
		if err != nil {
			c.t.Fatal(err)
		}
		c.raw(line)
		return
	}
	if err := c.peer.Accept(c.rig.ctx, answer); err != nil {
		c.t.Fatal(err)
	}
	flow := new(rtc.Flow)
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
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), b.String()
}

func (r *rig) do(t *testing.T, method, path, kind, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(r.ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	res, err := unpooled.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

func (r *rig) post(t *testing.T, path, kind, body string) (int, string) {
	t.Helper()
	res, text := r.do(t, http.MethodPost, path, kind, body)
	return res.StatusCode, text
}

// read gets a JSON document.
func (r *rig) read(t *testing.T, path string, v any) {
	t.Helper()
	res, body := r.do(t, http.MethodGet, path, "", "")
	if err := json.Unmarshal([]byte(body), v); res.StatusCode != http.StatusOK || err != nil {
		t.Fatalf("%s: %d %s", path, res.StatusCode, body)
	}
}

// messages reads the thread as a page does.
func (r *rig) messages(t *testing.T, thread string) []persistence.Message {
	t.Helper()
	var page struct{ Messages []persistence.Message }
	r.read(t, "/api/threads/"+thread+"/messages?limit=1000", &page)
	return page.Messages
}

// script is the thread in one line a message.
func (r *rig) script(t *testing.T, thread string) []string {
	t.Helper()
	var lines []string
	for _, m := range r.messages(t, thread) {
		line := fmt.Sprintf("%s %s %s: %s", m.Role, m.Metadata.Source, m.Metadata.Status, m.Text())
		for _, p := range m.Parts {
			if p.IsTool() {
				line += fmt.Sprintf("[%s %s]", p.Type, p.State)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// wantScript compares the thread with the lines that it must have.
func (r *rig) wantScript(t *testing.T, thread string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, r.script(t, thread)); diff != "" {
		t.Errorf("thread (-want +got):\n%s", diff)
	}
}

// rows asks the database, beside the program.
func (r *rig) rows(t *testing.T, format string, args ...any) []string {
	t.Helper()
	var lines []string
	for _, row := range persistencetest.Rows(t, r.database, fmt.Sprintf(format, args...)) {
		lines = append(lines, strings.Join(row, " "))
	}
	return lines
}

// over waits until all of the call is over, and checks what it leaves: one end
// for this reason, nothing open in the thread, and no call at the upstream.
func (r *rig) over(c *caller, reason string) {
	c.t.Helper()
	c.hangUp() // returns when the call is over
	r.wantLeft(c, reason)
}

// wantLeft is over for a call that is over already.
func (r *rig) wantLeft(c *caller, reason string) {
	c.t.Helper()
	const ended = "CASE WHEN ended_at IS NULL THEN 'open' ELSE 'ended' END"
	if got := r.rows(c.t, "SELECT end_reason, "+ended+" FROM calls WHERE id = '%s'", c.id); !cmp.Equal(got, []string{reason + " ended"}) {
		c.t.Errorf("the call's row is %q, want it ended by %s", got, reason)
	}
	r.nothingOpen(c.t, c.thread)
	r.upstreamEnded(c)
}

// upstreamEnded waits for the end of the upstream's call, which must have been
// hung up if it had a name.
func (r *rig) upstreamEnded(c *caller) {
	c.t.Helper()
	limit := time.NewTimer(rigPatience)
	defer limit.Stop()
	select {
	case <-c.session.Done():
	case <-limit.C:
		c.t.Fatal("the upstream's call goes on")
	}
	if _, asked := r.hangUps.Load(c.session.ID()); !asked && !c.nameless {
		c.t.Errorf("the upstream's call was not hung up and ended because of %v", c.session.Err())
	}
}

// nothingOpen checks that all of a thread is finished.
func (r *rig) nothingOpen(t *testing.T, thread string) {
	t.Helper()
	for table, open := range map[string]string{
		"calls": "ended_at IS NULL", "messages": "status = 'in_progress'", "tool_calls": "status = 'running'", "responses": "status = 'in_progress'",
	} {
		if rows := r.rows(t, "SELECT id FROM %s WHERE thread_id = '%s' AND %s", table, thread, open); len(rows) > 0 {
			t.Errorf("%d %s of the thread are open: %q", len(rows), table, rows)
		}
	}
}

var metricPattern = regexp.MustCompile(`(?m)^([a-z_]+(?:\{[^}]*\})?) ([0-9.e+]+)$`)

// metrics reads the figures of the process, by name and labels.
func (r *rig) metrics() map[string]float64 {
	r.t.Helper()
	_, body := r.do(r.t, http.MethodGet, "/metrics", "", "")
	out := map[string]float64{}
	for _, m := range metricPattern.FindAllStringSubmatch(body, -1) {
		value, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			r.t.Fatal(err)
		}
		out[m[1]] = value
	}
	return out
}

// load reads how many calls and goroutines the process has. To read it takes
// goroutines too, now more, now less, and the runtime's count may be too low while
// it works: so it is the second-lowest of some counts.
func (r *rig) load() (calls, goroutines int) {
	r.t.Helper()
	var counts []int
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 7 {
		<-tick.C
		m := r.metrics()
		calls = int(m["voicebridge_calls_live"])
		counts = append(counts, int(m["go_goroutines"]))
	}
	slices.Sort(counts)
	return calls, counts[1]
}

// quiet waits until the process has no calls and no more goroutines than before
// the first one. Nobody tells when a goroutine has ended, so it is asked again.
func (r *rig) quiet() {
	r.t.Helper()
	for end := time.Now().Add(rigPatience); ; {
		calls, goroutines := r.load()
		if calls == 0 && goroutines <= r.resting {
			return
		}
		if time.Now().After(end) {
			dump := r.goroutineDump()
			keepArtifact(r.t, "goroutines.txt", dump)
			r.t.Fatalf("%d goroutines and %d calls are left, %d goroutines were there before; they do:\n%.20000s", goroutines, calls, r.resting, dump)
		}
	}
}

// replayOf lists what a session was told of the thread before its settings.
func replayOf(t *testing.T, s *simulator.Session) []string {
	t.Helper()
	var items []string
	for _, record := range s.Received() {
		if record.Refused != "" {
			t.Errorf("the upstream refused %s: %s", record.Event.Raw, record.Refused)
		}
		if record.Event.Type == realtime.TypeSessionUpdate {
			break
		}
		item, err := realtime.DecodeItem(record.Event.Item)
		if err != nil {
			t.Fatalf("%s: %v", record.Event.Raw, err)
		}
		if item.Type == realtime.ItemMessage {
			items = append(items, item.Role+": "+item.Text())
		} else {
			items = append(items, strings.TrimSpace(item.Type+" "+item.Name))
		}
	}
	return items
}
