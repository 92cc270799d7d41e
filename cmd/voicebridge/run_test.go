package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/assistant"
	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
	"voicebridge/toolkit"
	"voicebridge/toolkit/code"
)

var must = testkit.Must

// write puts a settings file into a folder of the test.
func write(t testing.TB, yaml string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	must(t, os.WriteFile(path, []byte(yaml), 0o600))
	return path
}

// noFile returns an empty settings file, so that a test does not read one from the working
// directory.
func noFile(t testing.TB) string { return write(t, "") }

// TestMain runs the tests, or a tool's child process.
func TestMain(m *testing.M) {
	if code.IsChild(os.Args) {
		main()
		return
	}
	persistencetest.Main(m)
}

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

// failing runs a command that should end by itself.
func failing(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	// A command that does not fail is stopped.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, errs output
	code = execute(ctx, args, environ, &out, &errs)
	return code, out.String(), errs.String()
}

func environment(t testing.TB, more ...string) []string {
	t.Helper()
	return append([]string{"DATABASE_URL=" + persistencetest.EmptySQLiteURL(t), "VOICEBRIDGE_LISTEN=127.0.0.1:0", "VOICEBRIDGE_CONFIG=" + noFile(t)}, more...)
}

func TestServeRefusesToStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{})
	must(t, err)
	t.Cleanup(func() { _ = udp.Close() })
	_, udpPort, _ := net.SplitHostPort(udp.LocalAddr().String())
	folder := t.TempDir()
	badMCP := filepath.Join(folder, "mcp.json")
	must(t, os.WriteFile(badMCP, []byte("{"), 0o600))
	for name, c := range map[string]struct {
		environ []string
		args    []string
		code    int
		want    string
	}{
		"off loopback":         {[]string{"VOICEBRIDGE_LISTEN=0.0.0.0:0"}, nil, 1, "callers must prove who they are"},
		"off loopback, flag":   {nil, []string{"--listen", ":0"}, 1, "callers must prove who they are"},
		"a taken port":         {nil, []string{"serve", "--listen", taken.Addr().String()}, 1, "--listen"},
		"a taken UDP port":     {[]string{"VOICEBRIDGE_UDP_PORT=" + udpPort}, nil, 1, "VOICEBRIDGE_UDP_PORT"},
		"unknown setting":      {[]string{"VOICEBRIDGE_X=1"}, nil, 1, "VOICEBRIDGE_X"},
		"unknown flag":         {nil, []string{"--colour"}, 2, "--colour"},
		"unknown command":      {nil, []string{"dance"}, 2, "dance"},
		"a missing file":       {nil, []string{"--config", "/does/not/exist"}, 1, "/does/not/exist"},
		"a bad log level":      {nil, []string{"--log-level", "loud"}, 1, "log.level"},
		"a bad MCP file":       {[]string{"VOICEBRIDGE_MCP_CONFIG=" + badMCP}, nil, 1, "mcp.json"},
		"a missing MCP file":   {[]string{"VOICEBRIDGE_MCP_CONFIG=" + folder + "/no.json"}, nil, 1, "no.json: no such file or directory (choose another file with VOICEBRIDGE_MCP_CONFIG)"},
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

// TestStopDuringTheStart stops a program that has not opened its database yet.
func TestStopDuringTheStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs output
	if code := execute(ctx, []string{"serve"}, environment(t), &out, &errs); code != 0 || out.String() != "" || !strings.Contains(errs.String(), "stopped during the start") {
		t.Errorf("code %d: %s%s", code, &out, &errs)
	}
}

// TestRecoverAgain: a deadlock with another process does not stop the start.
func TestRecoverAgain(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), persistencetest.PostgresURL(t)
	dead, next := persistencetest.Open(t, url, persistence.Options{}), persistencetest.Open(t, url, persistence.Options{})
	must(t, dead.Records.SaveCall(ctx, persistencetest.NewThread(t, dead, "anna", ""), records.Call{ID: "c"}))
	for _, statement := range []string{
		"CREATE SEQUENCE tries",
		`CREATE FUNCTION once() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN IF nextval('tries') = 1 THEN RAISE SQLSTATE '40P01'; END IF; RETURN new; END $$`,
		"CREATE TRIGGER once BEFORE UPDATE ON calls FOR EACH ROW EXECUTE FUNCTION once()",
	} {
		persistencetest.Rows(t, url, statement)
	}
	a := &app{store: next, log: newLogger(config.Log{}, io.Discard)}
	must(t, errors.Join(next.Serve(ctx), a.recoverDead(ctx, t.TempDir())))
	if c, err := next.Records.Call(ctx, "anna", "c"); err != nil || c.EndReason != "process_ended" {
		t.Errorf("Call() = %+v, %v", c, err)
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
	must(t, err)
	must(t, errors.Join(db.Ping(t.Context()), db.Close()))
	// As in the image, where the address is set and tokens may not be.
	if code, _, stderr := failing(t, append(environ, "VOICEBRIDGE_LISTEN=0.0.0.0:8080"), "migrate"); code != 0 {
		t.Errorf("with an address of a server: code %d: %s", code, stderr)
	}
	if code, _, stderr := failing(t, environ, "migrate", "--database", "x"); code != 1 || !strings.Contains(stderr, "database_url") {
		t.Errorf("code %d: %s", code, stderr)
	}
}

func TestCommandsWithoutSettings(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"simulate", "--listen", "127.0.0.1:0"}, {"bench", "--calls", "0"}} {
		for _, c := range []struct {
			environ, flags []string
			want           string
		}{
			{nil, []string{"--log-level", "loud"}, `log.level: "loud"`},
			{nil, []string{"--log-format", "xml"}, `log.format: "xml"`},
			{[]string{"VOICEBRIDGE_LOG__LEVEL=loud"}, nil, `log.level: "loud"`},
			{[]string{"VOICEBRIDGE_LOG__COLOUR=red"}, nil, "VOICEBRIDGE_LOG__COLOUR"},
			{nil, []string{"--config", "/does/not/exist.yaml"}, "--config: " + command[0] + " reads no settings file"},
			{nil, []string{"--config", noFile(t)}, "--config: " + command[0] + " reads no settings file"},
		} {
			if code, _, stderr := failing(t, c.environ, append(slices.Clone(command), c.flags...)...); code != 1 || !strings.Contains(stderr, c.want) {
				t.Errorf("%v %v %v: code %d: %s", c.environ, command, c.flags, code, stderr)
			}
		}
	}
}

// TestLogOfCommandsWithoutSettings has the environment and the flags say how to log, beside settings that are not read.
func TestLogOfCommandsWithoutSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		level *string
		want  string
	}{{nil, `"level":"WARN"`}, {new("info"), `"level":"INFO"`}} {
		var out bytes.Buffer
		p := &process{
			flags: globalFlags{LogLevel: c.level}, stderr: &out,
			environ: []string{"VOICEBRIDGE_LOG__LEVEL=warn", "VOICEBRIDGE_LOG__FORMAT=json", "VOICEBRIDGE_UDP_PORT=wrong"},
		}
		log, err := p.alone("simulate")
		must(t, err)
		log.Info("first")
		log.Warn("second")
		if first, _, _ := strings.Cut(out.String(), "\n"); !strings.Contains(first, c.want) {
			t.Errorf("the log begins with %s, want %s", first, c.want)
		}
	}
}

// TestDurationsInTheLog reads the same duration in both formats.
func TestDurationsInTheLog(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		var log bytes.Buffer
		newLogger(config.Log{Format: format}, &log).Info("done", "took", 1500*time.Microsecond)
		if !strings.Contains(log.String(), "1.5ms") {
			t.Errorf("%s: %s", format, log.String())
		}
	}
}

func TestSimulateRefusesFaults(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"--refuse-status=200":  "refuse_status 200",
		"--refuse-status=many": "--refuse-status",
		"--transcripts=sung":   `transcripts "sung"`,
		"--drop-after=-1s":     "drop_after",
		"--expire-after=soon":  "--expire-after",
		"--fail-responses=-1":  "fail_responses",
		"--faulty-calls=-1":    "FaultyCalls",
		"--max-duration=-1m":   "MaxDuration",
		"--fault=drop":         "--fault",
	} {
		if code, _, stderr := failing(t, nil, "simulate", "--listen", "127.0.0.1:0", flag); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d: %s", flag, code, stderr)
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
		opened, err := openTools(t.Context(), config.Config{Tools: pick, MCPConfig: emptyMCP(t)}, nil, newLogger(config.Log{}, io.Discard))
		must(t, err)
		defer func() { _ = opened.close() }()
		r, err := opened.registry(t.Context(), "", assistant.Assistant{})
		must(t, err)
		var out []string
		for _, e := range r.Entries() {
			out = append(out, e.Tool.Definition().Name)
		}
		return strings.Join(out, " ")
	}
	all := names(config.Tools{})
	testkit.Equal(t, len(strings.Fields(all)), 16, "tools: %s", all)
	if got := names(config.Tools{Settings: toolkit.Settings{Deny: toolkit.MustNames("createTable")}}); strings.Contains(got, "createTable") || len(strings.Fields(got)) != 15 {
		t.Errorf("without createTable: %s", got)
	}
	testkit.Equal(t, names(config.Tools{Settings: toolkit.Settings{Allow: toolkit.MustNames("createTable", "unknown")}}), "createTable", "only createTable")
	testkit.Equal(t, names(config.Tools{Settings: toolkit.Settings{Allow: toolkit.MustNames("create*"), Deny: toolkit.MustNames("create_*")}}), "createTable", "by patterns")
}

// TestMisspeltTools names tools that do not exist.
func TestMisspeltTools(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	pick := config.Tools{
		Toolkits: []string{config.ToolkitArtifacts, config.ToolkitHTTP},
		Settings: toolkit.Settings{
			Allow: toolkit.MustNames("create*", "http"), Deny: toolkit.MustNames("createTables", "python-execution"),
			Approve: toolkit.MustNames("http:write", "htpp:write", "files__*"),
		},
	}
	opened, err := openTools(t.Context(), config.Config{Tools: pick, MCPConfig: emptyMCP(t)}, nil, newLogger(config.Log{}, &log))
	must(t, err)
	defer func() { _ = opened.close() }()
	opened.reportLists()
	for _, want := range []string{"setting=tools.deny entry=createTables", "setting=tools.approve entry=htpp:write", "setting=tools.approve entry=files__*"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in the log", want)
		}
	}
	testkit.Equal(t, strings.Count(log.String(), "setting names an unknown tool"), 3, "warnings: %s", &log)
}

func emptyMCP(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcp.json")
	must(t, os.WriteFile(path, []byte(`{"mcpServers":{}}`), 0o600))
	return path
}

func TestPageURL(t *testing.T) {
	t.Parallel()
	files := config.TLS{CertFile: "x"}
	for _, c := range []struct {
		addr string
		tls  config.TLS
		want string
	}{
		{"127.0.0.1:80", config.TLS{}, "http://127.0.0.1:80"}, {"0.0.0.0:80", config.TLS{}, "http://localhost:80"},
		{"[::]:80", config.TLS{}, "http://localhost:80"}, {"[::1]:80", config.TLS{}, "http://[::1]:80"},
		{"0.0.0.0:443", files, "https://localhost:443"},
	} {
		a, err := net.ResolveTCPAddr("tcp", c.addr)
		must(t, err)
		testkit.Equal(t, pageURL(c.tls, a), c.want, "%s", c.addr)
	}
}

func TestWaitForEndGivesUp(t *testing.T) {
	t.Parallel()
	mentioned := false
	if err := waitForEnd(make(chan error), func() { mentioned = true }, time.Millisecond); err == nil || !mentioned {
		t.Errorf("err %v, told %v", err, mentioned)
	}
	finished := make(chan error, 1)
	finished <- nil
	must(t, waitForEnd(finished, func() {}, time.Hour))
}

// TestProgress shows steps in a log, on a terminal and not at all.
func TestProgress(t *testing.T) {
	t.Parallel()
	var log output
	shown := (&process{stderr: &log}).progress()
	shown.say("applying %d of %d", 1, 2)
	shown.count("%d MB", 1) // a moment later
	shown.clear()
	line, more, _ := strings.Cut(log.String(), "\n")
	at, text, _ := strings.Cut(line, " ")
	if _, err := time.Parse(time.RFC3339, at); err != nil || text != "applying 1 of 2" || more != "" {
		t.Errorf("a log has %q", log.String())
	}
	shown.last = time.Now().Add(-tellEvery)
	c := &counted{Writer: io.Discard, shown: shown}
	if n, err := c.Write(make([]byte, 2_500_000)); n != 2_500_000 || err != nil || !strings.HasSuffix(log.String(), " exporting: 2.5 MB\n") {
		t.Errorf("%d, %v, a log has %q", n, err, log.String())
	}
	var screen output
	shown = &progress{out: &screen, terminal: true}
	shown.say("a")
	shown.count("b")
	shown.say("c")
	shown.clear()
	testkit.Equal(t, screen.String(), "\r\033[Ka\r\033[Kc\r\033[K", "a terminal")
	var none output
	(&process{stderr: &none, flags: globalFlags{Quiet: true}}).progress().say("a")
	testkit.Equal(t, none.String(), "", "with --quiet")
}

// TestLongCommandsSayHowFarTheyAre brings a database up to date and erases an owner.
func TestLongCommandsSayHowFarTheyAre(t *testing.T) {
	t.Parallel()
	environ := []string{"DATABASE_URL=sqlite:" + filepath.Join(t.TempDir(), "new.db"), "VOICEBRIDGE_CONFIG=" + noFile(t)}
	for _, c := range []struct{ args, want string }{
		{"migrate", "(1 of "}, {"migrate", ""}, {"erase --owner anna", "erasing threads (2 of "}, {"erase --owner anna --quiet", ""},
	} {
		code, _, stderr := failing(t, environ, strings.Fields(c.args)...)
		if code != 0 || !strings.Contains(stderr, c.want) || (stderr == "") != (c.want == "") {
			t.Errorf("%s: code %d, %q", c.args, code, stderr)
		}
	}
}
