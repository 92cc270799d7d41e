package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
)

// logBook is a log that tests can read and wait for.
type logBook struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newLogBook() *logBook { return &logBook{changed: make(chan struct{})} }

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Write(p)
	close(b.changed)
	b.changed = make(chan struct{})
	return len(p), nil
}

func (b *logBook) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// await returns once the log has n lines with the text.
func (b *logBook) await(t *testing.T, text string, n int) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		b.mu.Lock()
		found, changed := strings.Count(b.text.String(), text) >= n, b.changed
		b.mu.Unlock()
		if found {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%q is not %d times in the log:\n%s", text, n, b)
		}
	}
}

func stdio(role string, env map[string]string) Server {
	all := map[string]string{roleVariable: role}
	maps.Copy(all, env)
	return Server{Type: TypeStdio, Command: os.Args[0], Env: all}
}

// bench is a set of running servers, with a router over their tools.
type bench struct {
	notified chan struct{} // a signal for each change
	*Servers
	registry *toolkit.Registry
	router   *toolkit.Router
	log      *logBook
}

func open(t *testing.T, servers map[string]Server) *bench {
	t.Helper()
	return openWith(t, servers, Options{ConnectTimeout: time.Minute})
}

func openWith(t *testing.T, servers map[string]Server, options Options) *bench {
	t.Helper()
	log := newLogBook()
	options.Logger, options.MinBackoff, options.MaxBackoff = log.logger(), 10*time.Millisecond, 50*time.Millisecond
	notified := make(chan struct{}, 100)
	options.Changed = func() { notified <- struct{}{} }
	s, err := Open(Config{Servers: servers}, options)
	must(t, err)
	run(t, s)
	for len(notified) > 0 {
		testkit.Take(t, "a notice", notified) // for the first connection
	}
	b := &bench{Servers: s, log: log, notified: notified, registry: toolkit.NewRegistry()}
	b.router = toolkit.NewRouter(b.registry, toolkit.RouterConfig{Timeout: 5 * time.Minute}) // the machine may be busy
	b.register(t)
	return b
}

// run runs the servers until the test ends, and returns once each has been tried.
func run(t *testing.T, s *Servers) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	testkit.Take(t, "that all is settled", s.Settled())
}

func (b *bench) register(t *testing.T) {
	t.Helper()
	var old []string
	for _, d := range b.registry.Definitions() {
		old = append(old, d.Name)
	}
	must(t, b.registry.Replace(old, b.Tools()))
}

func (b *bench) names() []string {
	var names []string
	for _, e := range b.Tools() {
		names = append(names, e.Tool.Definition().Name)
	}
	return names
}

func (b *bench) call(t *testing.T, name, arguments string) toolkit.Result {
	t.Helper()
	return b.router.Call(t.Context(), toolkit.Call{Name: name, Arguments: arguments}, nil)
}

func TestStdioTools(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]Server{"s": stdio("server", nil)})
	long := strings.Repeat("ä", 100_000)
	for name, tc := range map[string]struct{ arguments, model, output, err string }{
		"s__echo":        {arguments: `{"text":"hello"}`, model: "hello", output: `"text":"hello"`},
		"s__structured":  {arguments: ``, model: `{"answer":42}`, output: `"structuredContent":{"answer":42}`},
		"s__mixed":       {model: "a picture:\n[image, image/png]\n[resource file:///a.txt: a]\ninside", output: `"AQID"`},
		"s__nothing":     {model: "(the tool returned nothing)", output: `"content":[]`},
		"s__large":       {model: long[:2*maxModelText] + "\n[cut: the text has 100000 characters]", output: long},
		"s__fail":        {err: "the file is locked", output: `"isError":true`},
		"s__refuse":      {err: `the MCP server "s" refused the call: `},
		"s__recursive":   {arguments: `{"child":{"child":{}}}`, model: "recursive", output: "recursive"},
		"s__many_values": {err: "its answer has more than 200000 values"},
		"s__gone":        {err: `no tool named "s__gone"`},
	} {
		t.Run(name, func(t *testing.T) {
			result := b.call(t, name, tc.arguments)
			if !strings.Contains(result.Error, tc.err) || result.Failed() != (tc.err != "") || result.Model != tc.model {
				t.Errorf("got error %q, model %.200q", result.Error, result.Model)
			}
			if !strings.Contains(string(result.Output), tc.output) {
				t.Errorf("got the output %.200s, want %.200q in it", result.Output, tc.output)
			}
		})
	}
	if result := b.call(t, "s__echo", `{"text":1}`); !strings.Contains(result.Error, "text: type") {
		t.Errorf("bad arguments: got %+v", result)
	}
}

// TestTooLargeAnswer has a child whose answer is too long to be read: that call fails, and no other.
func TestTooLargeAnswer(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]Server{"s": stdio("server", nil)})
	if result := b.call(t, "s__too_large", ""); !strings.Contains(result.Error, "its answer is longer than 8388608 bytes") {
		t.Errorf("got %+v", result)
	}
	if result := b.call(t, "s__echo", `{"text":"still here"}`); result.Model != "still here" || strings.Count(b.log.String(), `msg="MCP server connected"`) != 1 {
		t.Errorf("got %+v", result)
	}
}

// A server from 2024 that stays silent on requests it does not know: the second attempt
// asks differently.
func TestSilentOldServer(t *testing.T) {
	t.Parallel()
	b := openWith(t, map[string]Server{"s": stdio("silent", nil)}, Options{ConnectTimeout: 6 * time.Second})
	b.log.await(t, `msg="MCP server connected"`, 1)
	b.register(t)
	if result := b.call(t, "s__old", ""); result.Model != "still here" {
		t.Errorf("got %+v, %+v", result, b.Status())
	}
}

// TestStrictServer has a server that ends if its first request is not initialize.
func TestStrictServer(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]Server{"s": stdio("strict", nil)})
	testkit.Equal(t, b.names(), []string{"s__strict"}, "offered, %+v", b.Status())
}

// TestTalkativeServer has a server that writes to stdout what is not a message.
func TestTalkativeServer(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]Server{"s": stdio("talkative", map[string]string{"KEY": "[INFO] starting"})})
	if result := b.call(t, "s__echo", `{"text":"hello"}`); result.Model != "hello" {
		t.Errorf("got %+v, %+v", result, b.Status())
	}
	for _, line := range []string{"Welcome to this server!", "[dotenv@17.2.3] injecting env", `line=[secret]`, `\"msg\":\"ready\"`, "{not json", "line=" + strings.Repeat("x", maxLine) + "\n"} {
		if !strings.Contains(b.log.String(), line) {
			t.Errorf("the log lacks %.50q", line)
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]*bench{
		"stdio": open(t, map[string]Server{"s": stdio("server", nil)}),
		"http":  open(t, map[string]Server{"s": {Type: TypeHTTP, URL: serveHTTP(t).url}}),
	} {
		t.Run(name, func(t *testing.T) {
			var got []toolkit.Chunk
			result := b.router.Call(t.Context(), toolkit.Call{Name: "s__progress"}, func(c toolkit.Chunk) {
				if got = append(got, c); len(got) == 3 {
					if r := b.call(t, "s__release", ""); r.Failed() {
						t.Error(r.Error)
					}
				}
			})
			if result.Model != "progressed" {
				t.Errorf("got %+v", result)
			}
			var want []toolkit.Chunk
			for i := range 3 {
				m := fmt.Sprintf("step %d", i+1)
				want = append(want, toolkit.Chunk{Message: m, Percent: float64(25 * (i + 1)),
					Data: json.RawMessage(fmt.Sprintf(`{"status":"processing","message":%q,"progress":%d,"total":4}`, m, i+1))})
			}
			testkit.Equal(t, got, want, "got")
		})
	}
}

func TestChildEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-our-secret")
	t.Setenv("LANG", "C.UTF-8")
	directory := t.TempDir()
	server := stdio("server", map[string]string{"TOKEN": "value", "HOME": "/nowhere"})
	server.Cwd = directory
	b := open(t, map[string]Server{"s": server})
	result := b.call(t, "s__environment", "")
	var got struct {
		StructuredContent struct {
			Env []string
			Cwd string
		}
	}
	must(t, json.Unmarshal(result.Output, &got))
	var keys []string
	for _, entry := range got.StructuredContent.Env {
		key, value, _ := strings.Cut(entry, "=")
		keys = append(keys, key)
		if key == "HOME" && value != "/nowhere" || key == "TOKEN" && value != "value" {
			t.Errorf("the child has %s", entry)
		}
	}
	slices.Sort(keys)
	keys = slices.DeleteFunc(keys, func(k string) bool { return k == "TMPDIR" || k == "PWD" || k == "GOCOVERDIR" })
	testkit.Equal(t, keys, []string{"HOME", "LANG", roleVariable, "PATH", "TOKEN", markVariable}, "keys")
	testkit.Equal(t, got.StructuredContent.Cwd, directory, "the child runs")
}

func TestTimeoutAndCancel(t *testing.T) {
	t.Parallel()
	limited := stdio("server", nil)
	limited.Timeout = 300 * time.Millisecond
	b := open(t, map[string]Server{"limited": limited, "s": stdio("server", nil)})
	result := b.call(t, "limited__slow", "")
	if !strings.Contains(result.Error, "timed out after 300ms") {
		t.Errorf("got %+v", result)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result = b.router.Call(ctx, toolkit.Call{Name: "s__slow"}, func(toolkit.Chunk) { cancel() })
	if !strings.Contains(result.Error, "cancelled") {
		t.Errorf("got %+v", result)
	}
	// The connections still work.
	for _, name := range []string{"limited__echo", "s__echo"} {
		result := b.call(t, name, `{"text":"x"}`)
		for strings.Contains(result.Error, "timed out after 300ms") { // a busy machine
			result = b.call(t, name, `{"text":"x"}`)
		}
		if result.Failed() {
			t.Error(result.Error)
		}
	}
}

func TestServerDiesInTheMiddle(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]Server{"s": stdio("server", nil), "other": stdio("server", nil)})
	died := false
	result := b.router.Call(t.Context(), toolkit.Call{Name: "s__slow"}, func(toolkit.Chunk) {
		if died {
			return
		}
		died = true
		if r := b.call(t, "s__die", ""); !strings.Contains(r.Error, `the MCP server "s" went away during the call`) || !strings.Contains(r.Error, "exit status 7") {
			t.Errorf("the call that killed it: got %+v", r)
		}
	})
	if !died || !strings.Contains(result.Error, `the MCP server "s"`) {
		t.Errorf("the open call: got %+v", result)
	}
	if result := b.call(t, "other__echo", `{"text":"x"}`); result.Failed() {
		t.Errorf("another server: %s", result.Error)
	}
	b.log.await(t, `msg="MCP server connected" server=s `, 2)
	// The tool that was handed out before works again.
	if result := b.call(t, "s__echo", `{"text":"back"}`); result.Model != "back" {
		t.Errorf("got %+v", result)
	}
}

func TestFailingServersDoNotStopOthers(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]Server{
		"good":    stdio("server", nil),
		"missing": {Type: TypeStdio, Command: "/nonexistent/server"},
		"quits":   stdio("quits", nil),
		"refused": {Type: TypeHTTP, URL: "http://127.0.0.1:1/mcp?key=sk-secret"},
		"off":     {Type: "nonsense", Disabled: true},
	})
	for _, name := range b.names() {
		if !strings.HasPrefix(name, "good__") {
			t.Errorf("there is a tool %s", name)
		}
	}
	status := map[string]Status{}
	for _, s := range b.Status() {
		status[s.Name] = s
	}
	if s := status["good"]; len(status) != 4 || !s.Connected || s.Tools != len(b.names()) || s.Error != "" {
		t.Errorf("got %+v", status)
	}
	for name, want := range map[string]string{
		"missing": "no such file", "quits": "exit status 3", "refused": "connection refused",
	} {
		if s := status[name]; s.Connected || !strings.Contains(s.Error, want) {
			t.Errorf("%s: got %+v, want %q", name, s, want)
		}
	}
	b.log.await(t, `msg="MCP server not connected" server=quits`, 3) // it was retried
	b.log.await(t, `msg="MCP server stderr" server=quits line="no config file"`, 1)
	if text := b.log.String(); strings.Contains(text, "sk-secret") {
		t.Errorf("the log holds a secret:\n%s", text)
	}
}

func TestToolsOfALostServerAreAbsent(t *testing.T) {
	t.Parallel()
	h := serveHTTP(t)
	b := open(t, map[string]Server{"s": {Type: TypeHTTP, URL: h.url}})
	if len(b.names()) == 0 {
		t.Fatal("no tools")
	}
	h.stop()
	result := b.call(t, "s__echo", `{"text":"x"}`)
	if !strings.Contains(result.Error, `MCP server "s"`) {
		t.Errorf("the first call: got %+v", result)
	}
	b.log.await(t, `msg="MCP server lost"`, 1)
	b.log.await(t, `msg="MCP server not connected"`, 1)
	if names := b.names(); len(names) != 0 {
		t.Errorf("still offered: %v", names)
	}
	if result := b.call(t, "s__echo", `{"text":"x"}`); !strings.Contains(result.Error, `the MCP server "s" is not connected`) {
		t.Errorf("got %+v", result)
	}
	h.start(t)
	b.log.await(t, `msg="MCP server connected"`, 2)
	if result := b.call(t, "s__echo", `{"text":"back"}`); result.Model != "back" {
		t.Errorf("got %+v", result)
	}
}

func TestListChanged(t *testing.T) {
	t.Parallel()
	child := stdio("server", nil)
	child.TrustChanges = true
	for name, b := range map[string]*bench{
		"stdio": open(t, map[string]Server{"s": child}),
		"http":  open(t, map[string]Server{"s": {Type: TypeHTTP, URL: serveHTTP(t).url, TrustChanges: true}}),
	} {
		t.Run(name, func(t *testing.T) {
			if slices.Contains(b.names(), "s__grown") {
				t.Fatal("the tool is there already")
			}
			if result := b.call(t, "s__grow", ""); result.Failed() {
				t.Fatal(result.Error)
			}
			testkit.Take(t, "a notice", b.notified)
			b.register(t)
			if result := b.call(t, "s__grown", ""); result.Model != "new" {
				t.Errorf("got %+v", result)
			}
		})
	}
}

func TestHostileNamesAndDescriptions(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]Server{"s": stdio("server", nil)})
	valid := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	back := map[string]string{}
	for _, e := range b.Tools() {
		def := e.Tool.Definition()
		if !valid.MatchString(def.Name) {
			t.Errorf("the name %q", def.Name)
		}
		if n := len([]rune(def.Description)); n > maxDescription {
			t.Errorf("%s: description of %d runes", def.Name, n)
		}
		if e.Server != "s" || e.Executor != toolkit.ExecutorMCP {
			t.Errorf("%s: got %+v", def.Name, e)
		}
		back[def.Name] = e.Tool.(*tool).remote
	}
	for _, remote := range hostileNames {
		found := 0
		for name, r := range back {
			if r != remote {
				continue
			}
			found++
			// The server gets its own name of the tool.
			if result := b.call(t, name, ""); result.Model != remote {
				t.Errorf("%s: got %+v, want %q", name, result, remote)
			}
		}
		testkit.Equal(t, found, 1, "the tool %q is offered times", remote)
	}
	if _, ok := back["s__big_schema"]; ok {
		t.Error("a tool with a schema that is too large is offered")
	}
	if back["s__with_space"] != "with space" || back["s__dot_ted"] != "" {
		t.Errorf("got %v", back)
	}
}

func TestSameToolOnTwoServers(t *testing.T) {
	t.Parallel()
	one, two := stdio("server", map[string]string{"WHO": "one"}), stdio("server", map[string]string{"WHO": "two"})
	one.AllowedTools, two.AllowedTools = []string{"environment"}, []string{"environment", "not there"}
	b := open(t, map[string]Server{"one": one, "two": two})
	if diff := cmp.Diff([]string{"one__environment", "two__environment"}, b.names()); diff != "" {
		t.Fatal(diff)
	}
	for _, who := range []string{"one", "two"} {
		if result := b.call(t, who+"__environment", ""); !strings.Contains(string(result.Output), `"WHO=`+who+`"`) {
			t.Errorf("%s: got %s", who, result.Output)
		}
	}
	b.log.await(t, `tool="not there"`, 1)
}

func TestStderrIsLogged(t *testing.T) {
	t.Parallel()
	lines := []string{"hello", "the key is sk-very-secret", strings.Repeat("x", 10_000), "bad \xff utf8"}
	for i := range 500 {
		lines = append(lines, fmt.Sprintf("flood %d", i))
	}
	b := open(t, map[string]Server{"s": stdio("server", map[string]string{"STDERR": strings.Join(lines, "|"), "KEY": "sk-very-secret"})})
	b.log.await(t, "line=hello", 1)
	b.log.await(t, `line="the key is [secret]"`, 1)
	b.log.await(t, "flood 1", 1)
	text := b.log.String()
	if strings.Contains(text, "sk-very-secret") || strings.Contains(text, strings.Repeat("x", maxLine+1)) {
		t.Error("a secret or a line that is too long is in the log")
	}
	if n := strings.Count(text, "flood "); n > 2*lineBurst {
		t.Errorf("%d of 500 lines were logged", n)
	}
}

func TestStubbornChildIsKilled(t *testing.T) {
	t.Parallel()
	log := newLogBook()
	s, err := Open(Config{Servers: map[string]Server{"s": stdio("stubborn", nil)}},
		Options{Logger: log.logger(), ConnectTimeout: 200 * time.Millisecond, MinBackoff: time.Hour})
	must(t, err)
	run(t, s)
	status := s.Status()[0]
	must(t, s.Close())
	if status.Connected || !strings.Contains(status.Error, "deadline exceeded") {
		t.Errorf("got %+v", status)
	}
}

// namedPipe makes a named pipe, where the system has them.
func namedPipe(t *testing.T) string {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "pipe")
	switch err := makePipe(pipe); {
	case errors.Is(err, errors.ErrUnsupported):
		t.Skip("there are no named pipes here")
	case err != nil:
		t.Fatal(err)
	}
	return pipe
}

// inSessions runs a test with a grandchild in its parent's session and, where that is promised, in one of its own.
func inSessions(t *testing.T, test func(t *testing.T, session string)) {
	t.Parallel()
	for _, session := range []string{"", "own"} {
		if _, err := exec.LookPath("setsid"); session != "" && (err != nil || runtime.GOOS != "linux") {
			continue
		}
		t.Run("session "+session, func(t *testing.T) {
			t.Parallel()
			test(t, session)
		})
	}
}

func TestGrandchildrenEndToo(t *testing.T) { inSessions(t, testGrandchild) }

func testGrandchild(t *testing.T, session string) {
	pipe := namedPipe(t)
	s, err := Open(Config{Servers: map[string]Server{"s": stdio("parent", map[string]string{"PIPE": pipe, "SESSION": session})}}, Options{})
	must(t, err)
	running := make(chan struct{})
	go func() {
		defer close(running)
		_ = s.Run(t.Context())
	}()
	defer func() { <-running }()
	reader, err := os.Open(pipe) // opens once the grandchild has opened its end
	must(t, err)
	defer reader.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(reader) // ends with the grandchild
		ended <- err
	}()
	testkit.Take(t, "that all is settled", s.Settled())
	if !s.Status()[0].Connected {
		t.Errorf("got %+v", s.Status())
	}
	select {
	case err := <-ended:
		t.Errorf("the grandchild ended by itself: %v", err)
	default:
	}
	must(t, s.Close())
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the grandchild lives")
	}
}

func TestCloseEndsOpenCalls(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]Server{"s": stdio("server", nil)})
	result := b.router.Call(t.Context(), toolkit.Call{Name: "s__slow"}, func(toolkit.Chunk) {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if !strings.Contains(result.Error, `the MCP server "s"`) {
		t.Errorf("got %+v", result)
	}
	if result := b.call(t, "s__echo", `{"text":"x"}`); !strings.Contains(result.Error, "is not connected: the server was closed") {
		t.Errorf("got %+v", result)
	}
	if len(b.Tools()) != 0 {
		t.Error("tools after Close")
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	if _, err := Open(Config{Servers: map[string]Server{"s": {Type: TypeStdio}}}, Options{}); err == nil || !strings.Contains(err.Error(), `"s"`) {
		t.Errorf("got %v", err)
	}
}

// TestOwnPath has a server whose command only its own PATH finds.
func TestOwnPath(t *testing.T) {
	t.Parallel()
	program, err := filepath.Abs(os.Args[0])
	must(t, err)
	folder := t.TempDir()
	if err := os.Symlink(program, filepath.Join(folder, "own-server")); err != nil {
		t.Skip(err)
	}
	server := stdio("server", map[string]string{"PATH": "nowhere" + string(os.PathListSeparator) + folder})
	server.Command = "own-server"
	b := open(t, map[string]Server{"s": server})
	if result := b.call(t, "s__echo", `{"text":"found"}`); result.Model != "found" {
		t.Errorf("got %+v\n%s", result, b.log)
	}
}

// TestKilledProgram kills a program with a server, which ends with it, and so does what the server has
// started.
func TestKilledProgram(t *testing.T) { inSessions(t, testKilledProgram) }

func testKilledProgram(t *testing.T, session string) {
	pipe := namedPipe(t)
	program := exec.Command(os.Args[0])
	program.Env = []string{roleVariable + "=program", "PIPE=" + pipe, "SESSION=" + session, "PATH=" + os.Getenv("PATH")}
	must(t, program.Start())
	reader, err := os.Open(pipe) // opens once the grandchild has opened its end
	must(t, err)
	defer reader.Close()
	must(t, program.Process.Kill())
	_ = program.Wait()                            // it was killed
	if _, err := io.ReadAll(reader); err != nil { // ends with the grandchild
		t.Error(err)
	}
}

// TestUselessTools are not offered: tasks are not supported here, and a tool without a name cannot be called.
func TestUselessTools(t *testing.T) {
	t.Parallel()
	want := []string{"s__either", "s__plain"}
	b := openWith(t, map[string]Server{"s": stdio("tasks", nil)}, Options{ConnectTimeout: 6 * time.Second})
	b.log.await(t, `msg="MCP server connected"`, 1)
	testkit.Equal(t, b.names(), want, "over stdio")
	b.register(t)
	if result := b.call(t, "s__plain", ""); !strings.Contains(result.Error, "wants further input") {
		t.Errorf("a call that needs input: %+v", result)
	}
}

// TestSlowServerHoldsUpNobody has a server that never answers beside one that does.
func TestSlowServerHoldsUpNobody(t *testing.T) {
	t.Parallel()
	notified := make(chan struct{}, 10)
	s, err := Open(Config{Servers: map[string]Server{"good": stdio("server", nil), "slow": stdio("stubborn", nil)}},
		Options{ConnectTimeout: time.Hour, Changed: func() { notified <- struct{}{} }})
	must(t, err)
	if len(s.Tools()) != 0 {
		t.Error("there are tools before Run")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	testkit.Take(t, "a notice", notified)
	if tools := s.Tools(); len(tools) == 0 || tools[0].Server != "good" {
		t.Errorf("tools %v", tools)
	}
	select {
	case <-s.Settled():
		t.Error("the slow server counts as tried")
	default:
	}
	cancel()
	must(t, testkit.Take(t, "that it ran", ran))
	testkit.Take(t, "that all is settled", s.Settled())
}
