package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/toolkit/mcptool/signin/signintest"
)

// diagnose runs doctor and returns its exit code and its lines.
func diagnose(t *testing.T, environ []string, args ...string) (code int, report string) {
	t.Helper()
	code, report, stderr := failing(t, environ, append([]string{"doctor"}, args...)...)
	problems := 0
	for line := range strings.Lines(report) {
		verdict, rest, ok := strings.Cut(line, ": ")
		if !ok || !slices.Contains([]string{"ok", "warning", "problem"}, verdict) || !strings.Contains(rest, ": ") {
			t.Errorf("%q is no finding", line)
		}
		if verdict == "problem" {
			problems++
		}
	}
	if code != min(problems, 1) || (stderr != "") != (problems > 0) {
		t.Errorf("%d problems, exit code %d, %q", problems, code, stderr)
	}
	for _, secret := range []string{"canary"} {
		if strings.Contains(report+stderr, secret) {
			t.Errorf("a secret is in %s%s", report, stderr)
		}
	}
	return code, report
}

// wantLines checks that each wanted line is the beginning of a line.
func wantLines(t *testing.T, report string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains("\n"+report, "\n"+w) {
			t.Errorf("%q is not in\n%s", w, report)
		}
	}
}

// modelList is an OpenAI server that lists models to clients with the key.
func modelList(t *testing.T, key string, ids ...string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" || r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		data := []map[string]string{}
		for _, id := range ids {
			data = append(data, map[string]string{"id": id})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data})
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// mcpOverHTTP is a stateless MCP server with one tool.
func mcpOverHTTP(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			ID     json.RawMessage
			Method string
			Params struct {
				ProtocolVersion string
			}
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&request) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		answer := object{"jsonrpc": "2.0", "id": request.ID}
		switch {
		case request.ID == nil:
			w.WriteHeader(http.StatusAccepted)
			return
		case request.Method == "initialize":
			answer["result"] = object{"protocolVersion": request.Params.ProtocolVersion, "capabilities": object{"tools": object{}}, "serverInfo": object{"name": "s", "version": "1"}}
		case request.Method == "tools/list":
			answer["result"] = object{"tools": []object{{"name": "look", "inputSchema": object{"type": "object"}}}}
		default:
			answer["error"] = object{"code": -32601, "message": "method not found"}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

type object = map[string]any

// writeFile writes a file in a folder of its own.
func writeFile(t *testing.T, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(content), mode))
	return path
}

func TestDoctorOnAFreshMachine(t *testing.T) {
	t.Parallel()
	code, report := diagnose(t, environment(t))
	testkit.Equal(t, code, 0, "exit code")
	wantLines(t, report, "ok: settings: ", "ok: database: ", "ok: web address: 127.0.0.1:0 is free", "warning: voice model: a simulator answers: set OPENAI_API_KEY",
		"warning: typed messages: a simulator answers", "ok: media (UDP): ", "ok: ICE: two peers on this machine reach each other", "ok: microphone: ",
		"ok: programs of the model: JavaScript works", "ok: MCP servers: there is no mcp.json")
	testkit.Equal(t, strings.Count(report, "\n"), 10, "lines: %s", report)
}

func TestDoctorOnAFullMachine(t *testing.T) {
	t.Parallel()
	servers := writeFile(t, "mcp.json", fmt.Sprintf(`{"mcpServers":{
		"good":{"type":"http","url":%q,"headers":{"Authorization":"canary-header"}},"gone":{"command":"/does/not/exist"},"off":{"command":"x","disabled":true}}}`, mcpOverHTTP(t)), 0o600)
	port, stun := strconv.Itoa(freeUDPPort(t)), stunServer(t)
	environ := []string{
		"DATABASE_URL=" + persistencetest.EmptyPostgresURL(t), "VOICEBRIDGE_LISTEN=0.0.0.0:0", "VOICEBRIDGE_API_TOKENS=anna:canary-long-enough", "VOICEBRIDGE_CONFIG=" + noFile(t),
		"OPENAI_API_KEY=sk-canary", "OPENAI_BASE_URL=" + modelList(t, "sk-canary", "gpt-x", "gpt-5.4-mini"), "VOICEBRIDGE_REALTIME_MODEL=gpt-x", "GEMINI_API_KEY=canary", "GEMINI_BASE_URL=http://127.0.0.1:1",
		"VOICEBRIDGE_UDP_PORT=" + port, "VOICEBRIDGE_MCP_CONFIG=" + servers, "VOICEBRIDGE_ICE_SERVERS=" + stun,
	}
	code, report := diagnose(t, environ)
	testkit.Equal(t, code, 1, "exit code")
	wantLines(t, report, "warning: database: PostgreSQL at ", "ok: web address: ", "ok: voice model: http://127.0.0.1:", "ok: typed messages: they go to openai, to the model gpt-5.4-mini; also configured: google, simulator",
		"problem: typed messages by google: http://127.0.0.1:1 does not answer: is it reachable, and is GEMINI_BASE_URL right? (",
		"ok: media (UDP): port "+port+" can be used", "ok: ICE server "+stun+": it answers, and sees this machine at 203.0.113.5", "warning: microphone: browsers allow it for https pages",
		"ok: MCP server good: it answers; tools: 1", "problem: MCP server gone: its tools are not offered: ")
	if strings.Contains(report, "server off") {
		t.Errorf("a server that is switched off is in\n%s", report)
	}
	if code, _, stderr := failing(t, environ, "migrate"); code != 0 {
		t.Fatal(stderr)
	}
	_, report = diagnose(t, append(environ, "VOICEBRIDGE_PUBLIC_IPS=127.0.0.1"))
	wantLines(t, report, "ok: database: PostgreSQL at ", "warning: ICE server "+stun+": it answers, but sees this machine at 203.0.113.5, which is not in VOICEBRIDGE_PUBLIC_IPS")
}

// stunServer answers with an address that no machine has (RFC 8489, RFC 5737).
func stunServer(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		request := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(request)
			if err != nil {
				return
			}
			if n < 20 {
				continue
			}
			const cookie = 0x2112a442
			answer := binary.BigEndian.AppendUint32(nil, 0x0101<<16|12) // a success with 12 bytes of attributes
			answer = append(answer, request[4:20]...)
			answer = binary.BigEndian.AppendUint32(answer, 0x0020<<16|8)              // XOR-MAPPED-ADDRESS
			answer = binary.BigEndian.AppendUint32(answer, 1<<16|(4321^(cookie>>16))) // IPv4
			answer = binary.BigEndian.AppendUint32(answer, (203<<24|0<<16|113<<8|5)^cookie)
			_, _ = conn.WriteToUDPAddrPort(answer, from)
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return "stun:" + conn.LocalAddr().String()
}

func TestDoctorFindsProblems(t *testing.T) {
	t.Parallel()
	taken := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(taken.Close)
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{})
	must(t, err)
	t.Cleanup(func() { _ = udp.Close() })
	udpPort := strconv.Itoa(udp.LocalAddr().(*net.UDPAddr).Port)
	noDatabase := writeFile(t, "notes.txt", strings.Repeat("These are notes. ", 100), 0o644)
	open := filepath.Join(t.TempDir(), "open.db")
	db, err := persistence.Open(t.Context(), "sqlite:"+open, persistence.Options{})
	must(t, err)
	must(t, db.Close())
	must(t, os.Chmod(open, 0o644))
	pooler := persistencetest.NewPooler(t)
	for name, c := range map[string]struct {
		environ []string
		want    []string
	}{
		"settings":           {[]string{"VOICEBRIDGE_X=1", "VOICEBRIDGE_UDP_PORT=-1"}, []string{"problem: settings: VOICEBRIDGE_X: there is no such setting", "problem: settings: udp_port"}},
		"no authentication":  {[]string{"VOICEBRIDGE_LISTEN=:0"}, []string{"problem: settings: listen (VOICEBRIDGE_LISTEN): :0 can be reached"}},
		"missing file":       {[]string{"VOICEBRIDGE_CONFIG=/does/not/exist"}, []string{"problem: settings: read settings file"}},
		"taken address":      {[]string{"VOICEBRIDGE_LISTEN=" + taken.Listener.Addr().String()}, []string{"problem: web address: 127.0.0.1:"}},
		"taken UDP port":     {[]string{"VOICEBRIDGE_UDP_PORT=" + udpPort}, []string{"problem: media (UDP): port " + udpPort}},
		"folder is a file":   {[]string{"DATABASE_URL=sqlite:" + noDatabase + "/sub/x.db"}, []string{"problem: database: "}},
		"no database":        {[]string{"DATABASE_URL=sqlite:" + noDatabase}, []string{"problem: database: open database " + noDatabase}},
		"open to others":     {[]string{"DATABASE_URL=sqlite:" + open}, []string{"warning: database: other users of this machine can read " + open, "ok: database: the SQLite file " + open}},
		"PostgreSQL is gone": {[]string{"DATABASE_URL=postgres://anna:canary@127.0.0.1:1/db"}, []string{"problem: database: open database: PostgreSQL at 127.0.0.1:1: is PostgreSQL running there"}},
		"no way to OpenAI":   {[]string{"OPENAI_API_KEY=sk-canary", "OPENAI_BASE_URL=http://127.0.0.1:1/v1"}, []string{"problem: voice model: http://127.0.0.1:1/v1 does not answer"}},
		"a wrong key":        {[]string{"OPENAI_API_KEY=sk-canary", "OPENAI_BASE_URL=" + modelList(t, "another")}, []string{"problem: voice model: http://127.0.0.1:"}},
		"a forced simulator": {
			[]string{"OPENAI_API_KEY=sk-canary", "OPENAI_BASE_URL=" + modelList(t, "sk-canary", "gpt-5.4-mini"), "VOICEBRIDGE_UPSTREAM=simulator"},
			[]string{"warning: voice model: a simulator answers, because", "ok: typed messages by openai: http://127.0.0.1:"},
		},
		"another machine's":     {[]string{"VOICEBRIDGE_LISTEN=0.0.0.0:0", "VOICEBRIDGE_API_TOKENS=anna:canary-long-enough"}, []string{"warning: media (UDP): every call takes a port of its own", "warning: microphone: "}},
		"a bad MCP file":        {[]string{"VOICEBRIDGE_MCP_CONFIG=" + writeFile(t, "mcp.json", "{", 0o600)}, []string{"problem: MCP servers: "}},
		"a missing MCP file":    {[]string{"VOICEBRIDGE_MCP_CONFIG=/does/not/exist.json"}, []string{"problem: MCP servers: "}},
		"MCP, all switched off": {[]string{"VOICEBRIDGE_MCP_CONFIG=" + writeFile(t, "mcp.json", `{"mcpServers":{}}`, 0o600)}, []string{"ok: MCP servers: "}},
		"a TURN server by TCP": {
			[]string{`VOICEBRIDGE_ICE_SERVERS=[{"urls":["turn:127.0.0.1:1?transport=tcp"],"username":"u","credential":"canary"}]`},
			[]string{"ok: ICE server turn:127.0.0.1:1?transport=tcp: it was not tried"},
		},
		"a pooler": {[]string{"DATABASE_URL=" + pooler.URL(t)}, []string{"warning: database: PostgreSQL at "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, report := diagnose(t, environment(t, c.environ...))
			wantLines(t, report, c.want...)
			if strings.Contains(report, "chmod 600 "+noDatabase) {
				t.Errorf("another's file is to be closed to others:\n%s", report)
			}
			if hasProblem := strings.HasPrefix(c.want[0], "problem"); hasProblem != (code == 1) {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// TestDoctorOnANewerDatabase has doctor look at tables that a newer version made.
func TestDoctorOnANewerDatabase(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"SQLite": persistencetest.SQLiteURL(t), "PostgreSQL": persistencetest.PostgresURL(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			persistencetest.Rows(t, url, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)")
			_, report := diagnose(t, append(environment(t), "DATABASE_URL="+url))
			wantLines(t, report, "problem: database: ")
			if !strings.Contains(report, "start the newer voicebridge that made them") {
				t.Errorf("report\n%s", report)
			}
		})
	}
}

// TestDoctorChangesNoTable has doctor look at tables that an older version made, and export refuse to
// read them. Doctor makes no file either, which would belong to whoever ran it.
func TestDoctorChangesNoTable(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"SQLite": persistencetest.SQLiteURL(t), "PostgreSQL": persistencetest.PostgresURL(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			persistencetest.Rows(t, url, "DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)")
			state := func() string {
				return fmt.Sprint(persistencetest.Rows(t, url, "SELECT version_id FROM goose_db_version ORDER BY version_id"), persistencetest.Rows(t, url, "SELECT count(*) FROM instances"))
			}
			before, environ := state(), append(environment(t), "DATABASE_URL="+url)
			_, report := diagnose(t, environ)
			wantLines(t, report, "warning: database: ")
			if !strings.Contains(report, "an older version made its tables") {
				t.Errorf("report\n%s", report)
			}
			if code, _, stderr := failing(t, environ, "export", "thread"); code != 1 || !strings.Contains(stderr, "voicebridge migrate") {
				t.Errorf("export: code %d, %s", code, stderr)
			}
			if _, err := os.Stat(strings.TrimPrefix(url, "sqlite:") + ".lock"); err == nil {
				t.Error("doctor has made a lock file")
			}
			testkit.Equal(t, state(), before, "the tables")
		})
	}
}

// freeUDPPort finds an unused port below those that systems give away by themselves: another test
// would take one of those before it is used.
func freeUDPPort(t *testing.T) int {
	t.Helper()
	for port := 10_000 + os.Getpid()%20_000; port < 32_000; port++ {
		if conn, err := net.ListenUDP("udp", &net.UDPAddr{Port: port}); err == nil {
			_ = conn.Close()
			return port
		}
	}
	t.Fatal("no UDP port is free")
	return 0
}

// TestDoctorOnOwnersServers has servers of which each owner has one: a process, and two to which they sign in.
func TestDoctorOnOwnersServers(t *testing.T) {
	t.Parallel()
	authority := signintest.NewAuthority(t)
	u, err := url.Parse(authority.URL)
	must(t, err)
	servers := writeFile(t, "mcp.json", fmt.Sprintf(`{"mcpServers":{"post":{"url":%q,"auth":"oauth"},"plain":{"url":%q,"auth":"oauth"},"notes":{"command":"/does/not/exist","perOwner":true}}}`,
		authority.NewServer(t), mcpOverHTTP(t)), 0o600)
	_, report := diagnose(t, append(environment(t), "VOICEBRIDGE_MCP_CONFIG="+servers, "VOICEBRIDGE_TOOLS__WEB__ALLOW_NETWORKS=127.0.0.1/32", "VOICEBRIDGE_TOOLS__WEB__ALLOW_PORTS="+u.Port()))
	wantLines(t, report, "ok: MCP server post: it answers; owners sign in at "+authority.URL, "problem: MCP server plain: owners cannot sign in: ",
		"problem: MCP server notes: its tools are not offered: ")
	_, report = diagnose(t, append(environment(t), "VOICEBRIDGE_MCP_CONFIG="+servers))
	wantLines(t, report, "problem: MCP server post: owners cannot sign in: ")
}
