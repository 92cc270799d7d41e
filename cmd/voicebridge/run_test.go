package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// write puts a settings file into a folder of the test.
func write(t *testing.T, yaml string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// noFile is a settings file without settings, so that a test does not read what
// lies in the working directory.
func noFile(t *testing.T) string { return write(t, "") }

// output collects what a command writes.
type output struct {
	mu sync.Mutex
	b  strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// running is a command that runs in this process.
type running struct {
	url    string // what it printed to open or to use
	stdout string // the first line
	stderr *output
	stop   func() int // tells it to stop and returns its exit code
}

var urlPattern = regexp.MustCompile(`http://\S+`)

// start runs a command and waits until it prints its address.
func start(t *testing.T, environ []string, args ...string) running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	stderr, code := &output{}, make(chan int, 1)
	go func() {
		c := execute(ctx, args, environ, w, stderr)
		_ = w.Close()
		code <- c
	}()
	stop := sync.OnceValue(func() int { cancel(); return <-code })
	t.Cleanup(func() { stop() })
	lines := bufio.NewReader(r)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("it printed nothing and ended with %d: %s", stop(), stderr)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return running{url: urlPattern.FindString(line), stdout: line, stderr: stderr, stop: stop}
}

// failing runs a command that is expected to end by itself.
func failing(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	// A command that does not fail is told to stop.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var out, errs output
	code = execute(ctx, args, environ, &out, &errs)
	return code, out.String(), errs.String()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := (&http.Client{Transport: transport}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func environment(t *testing.T, more ...string) []string {
	t.Helper()
	return append([]string{"DATABASE_URL=" + persistencetest.SQLiteURL(t), "VOICEBRIDGE_LISTEN=127.0.0.1:0", "VOICEBRIDGE_CONFIG=" + noFile(t)}, more...)
}

func TestServe(t *testing.T) {
	t.Parallel()
	s := start(t, environment(t))
	for path, want := range map[string]string{
		"/": "<!doctype html>", "/healthz": `"ok"`, "/readyz": `"ok"`, "/api/config": `"upstream":"simulator","upstream_note":"No OPENAI_API_KEY is set`,
		"/api/threads": `{"threads":[],"next_cursor":null}`, "/api/tools": `"create_bar_chart"`,
		"/api/models": `"kind":"realtime","default":true,"voice":"marin"},{"provider":"simulator",`, "/api/usage": `"usage":[]`, "/metrics": "voicebridge_calls_live 0", "/openapi.json": `"openapi":"3.1.0"`,
	} {
		if status, body := get(t, s.url+path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: status %d: %.300s", path, status, body)
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d: %s", code, s.stderr)
	}
	if log := s.stderr.String(); !strings.Contains(log, "the upstream is the simulator") || !strings.Contains(log, "msg=stopping") {
		t.Errorf("log %s", log)
	}
}

func TestServeKeepsTheDatabaseToItself(t *testing.T) {
	t.Parallel()
	environ := environment(t)
	s := start(t, environ)
	code, _, stderr := failing(t, environ, "serve")
	if code != 1 || stderr == "" {
		t.Errorf("a second process on the same file: code %d, %q", code, stderr)
	}
	if status, _ := get(t, s.url+"/readyz"); status != 200 {
		t.Error("the second process disturbed the first")
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	again := start(t, environ) // the file is free again
	if code := again.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestServeClosesWhatADeadProcessLeft(t *testing.T) {
	t.Parallel()
	environ := environment(t)
	url := strings.TrimPrefix(environ[0], "DATABASE_URL=")
	db, err := persistence.Open(t.Context(), url, persistence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	thread, err := db.CreateThread(t.Context(), "local", "")
	if err != nil {
		t.Fatal(err)
	}
	key := persistence.Key{Owner: "local", Thread: thread.ID}
	saved := db.SaveCall(t.Context(), key, persistence.CallRecord{ID: "call", Owner: "local", ThreadID: thread.ID, Upstream: "simulator", StartedAt: time.Now()})
	_, said := db.AppendMessage(t.Context(), key, persistence.Message{
		Role: persistence.RoleAssistant, Parts: []persistence.Part{{Type: "text", Text: "half an ans"}},
		Metadata: persistence.Metadata{Source: persistence.SourceVoice, Status: persistence.StatusInProgress, CallID: "call"},
	})
	if err := errors.Join(saved, said, db.Close()); err != nil {
		t.Fatal(err)
	}
	s := start(t, environ)
	_, body := get(t, s.url+"/api/threads/"+thread.ID+"/messages")
	var page struct{ Messages []persistence.Message }
	if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Messages) != 1 || page.Messages[0].Metadata.Status != persistence.StatusInterrupted {
		t.Errorf("after the start the thread is %s", body)
	}
}

func TestServeRefusesToStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	folder := t.TempDir()
	badMCP := filepath.Join(folder, "mcp.json")
	if err := os.WriteFile(badMCP, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		environ []string
		args    []string
		code    int
		want    string
	}{
		"off loopback":         {[]string{"VOICEBRIDGE_LISTEN=0.0.0.0:0"}, nil, 1, "callers must prove who they are"},
		"off loopback, flag":   {nil, []string{"--listen", ":0"}, 1, "callers must prove who they are"},
		"a taken port":         {nil, []string{"serve", "--listen", taken.Addr().String()}, 1, "--listen"},
		"unknown setting":      {[]string{"VOICEBRIDGE_X=1"}, nil, 1, "VOICEBRIDGE_X"},
		"unknown flag":         {nil, []string{"--colour"}, 2, "--colour"},
		"unknown command":      {nil, []string{"dance"}, 2, "dance"},
		"a missing file":       {nil, []string{"--config", "/does/not/exist"}, 1, "/does/not/exist"},
		"a bad log level":      {nil, []string{"--log-level", "loud"}, 1, "log.level"},
		"a bad MCP file":       {[]string{"VOICEBRIDGE_MCP_CONFIG=" + badMCP}, nil, 1, "mcp.json"},
		"a missing MCP file":   {[]string{"VOICEBRIDGE_MCP_CONFIG=" + folder + "/no.json"}, nil, 1, "no.json"},
		"a database elsewhere": {[]string{"DATABASE_URL=postgres://user:canary@127.0.0.1:1/db?connect_timeout=1"}, nil, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := failing(t, append(environment(t), c.environ...), c.args...)
			if code != c.code || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "canary") {
				t.Errorf("code %d, want %d and %q: %s", code, c.code, c.want, stderr)
			}
		})
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	environ := environment(t)
	for range 2 { // the second time there is nothing to do
		if code, stdout, stderr := failing(t, environ, "migrate"); code != 0 || !strings.Contains(stdout, "up to date") {
			t.Errorf("code %d: %s%s", code, stdout, stderr)
		}
	}
	db, err := persistence.Open(t.Context(), strings.TrimPrefix(environ[0], "DATABASE_URL="), persistence.Options{NoMigrate: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Ping(t.Context()), db.Close()); err != nil {
		t.Error(err)
	}
	if code, _, stderr := failing(t, environ, "migrate", "--database", "x"); code != 1 || !strings.Contains(stderr, "database_url") {
		t.Errorf("code %d: %s", code, stderr)
	}
}

func TestSimulate(t *testing.T) {
	t.Parallel()
	s := start(t, nil, "simulate", "--listen", "127.0.0.1:0")
	if !strings.HasSuffix(s.url, "/v1") {
		t.Errorf("it printed %q", s.stdout)
	}
	if status, body := get(t, s.url+"/nothing"); status != 404 || !strings.Contains(body, "error") {
		t.Errorf("status %d: %s", status, body)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d: %s", code, s.stderr)
	}
}

func TestCommandsWithoutSettings(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"simulate", "--listen", "127.0.0.1:0"}, {"bench", "--calls", "0"}} {
		for _, c := range []struct {
			flags []string
			want  string
		}{
			{[]string{"--log-level", "loud"}, `log.level: "loud"`},
			{[]string{"--log-format", "xml"}, `log.format: "xml"`},
			{[]string{"--config", "/does/not/exist.yaml"}, "--config: " + command[0] + " reads no settings file"},
			{[]string{"--config", noFile(t)}, "--config: " + command[0] + " reads no settings file"},
		} {
			if code, _, stderr := failing(t, nil, append(slices.Clone(command), c.flags...)...); code != 1 || !strings.Contains(stderr, c.want) {
				t.Errorf("%v %v: code %d: %s", command, c.flags, code, stderr)
			}
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"migrate", "--help"}, {"simulate", "--help"}, {"-h"}} {
		code, stdout, stderr := failing(t, nil, args...)
		if code != 0 || !strings.Contains(stdout, "Usage: voicebridge") || stderr != "" {
			t.Errorf("%v: code %d: %s%s", args, code, stdout, stderr)
		}
	}
	if code, stdout, _ := failing(t, nil, "--version"); code != 0 || strings.TrimSpace(stdout) != buildVersion() {
		t.Errorf("code %d, version %q", code, stdout)
	}
}

func TestPickedTools(t *testing.T) {
	t.Parallel()
	names := func(pick config.Tools) string {
		pick.Toolkits = []string{config.ToolkitArtifacts}
		opened, err := openTools(t.Context(), config.Config{Tools: pick, MCPConfig: emptyMCP(t)}, newLogger(config.Log{}, io.Discard))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = opened.close() }()
		r, err := opened.registry(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range r.Entries() {
			out = append(out, e.Tool.Definition().Name)
		}
		return strings.Join(out, " ")
	}
	all := names(config.Tools{})
	if n := len(strings.Fields(all)); n != 16 {
		t.Errorf("%d tools: %s", n, all)
	}
	if got := names(config.Tools{Deny: []string{"createTable"}}); strings.Contains(got, "createTable") || len(strings.Fields(got)) != 15 {
		t.Errorf("without createTable: %s", got)
	}
	if got := names(config.Tools{Allow: []string{"createTable", "unknown"}}); got != "createTable" {
		t.Errorf("only createTable: %s", got)
	}
	if got := names(config.Tools{Allow: []string{"create*"}, Deny: []string{"create_*"}}); got != "createTable" {
		t.Errorf("by patterns: %s", got)
	}
}

// TestMisspeltTools names tools that are not there.
func TestMisspeltTools(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	pick := config.Tools{
		Toolkits: []string{config.ToolkitArtifacts, config.ToolkitHTTP}, Allow: []string{"create*", "http"},
		Deny: []string{"createTables", "python-execution"}, Approve: []string{"http:write", "htpp:write", "files__*"},
	}
	opened, err := openTools(t.Context(), config.Config{Tools: pick, MCPConfig: emptyMCP(t)}, newLogger(config.Log{}, &log))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.close() }()
	opened.reportLists()
	for _, want := range []string{"setting=tools.deny entry=createTables", "setting=tools.approve entry=htpp:write", "setting=tools.approve entry=files__*"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in the log", want)
		}
	}
	if n := strings.Count(log.String(), "setting names a tool"); n != 3 {
		t.Errorf("%d warnings:\n%s", n, &log)
	}
}

func emptyMCP(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(path, []byte(`{"mcpServers":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPageURL(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"127.0.0.1:80": "http://127.0.0.1:80", "0.0.0.0:80": "http://localhost:80", "[::]:80": "http://localhost:80", "[::1]:80": "http://[::1]:80",
	} {
		a, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := pageURL(a); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

func TestWaitForEndGivesUp(t *testing.T) {
	t.Parallel()
	told := false
	if err := waitForEnd(make(chan error), func() { told = true }, time.Millisecond); err == nil || !told {
		t.Errorf("err %v, told %v", err, told)
	}
	finished := make(chan error, 1)
	finished <- nil
	if err := waitForEnd(finished, func() {}, time.Hour); err != nil {
		t.Error(err)
	}
}
