package mcptool

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
)

// TestEvents has streams with more than messages in them, as the answer to the call 7, and otherwise.
func TestEvents(t *testing.T) {
	t.Parallel()
	const answer = `{"id":7,"jsonrpc":"2.0","result":{"nextCursor":"b","tools":[]}}`
	const given = `{"jsonrpc":"2.0","id":7,"result":{"tools":[],"nextCursor":"b"}}`
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}`
	refused := func(why string) string {
		return `data: {"error":{"code":-32005,"message":"` + why + `"},"id":7,"jsonrpc":"2.0"}` + "\n\n"
	}
	no := refused("its answer is no message of MCP")
	for name, c := range map[string]struct{ events, want string }{
		"nothing":                    {},
		"an answer":                  {"event: message\ndata: " + given + "\n\n", "data: " + answer + "\n\n"},
		"with other line ends":       {"event: message\r\ndata:" + given + "\r\n\r\n", "data: " + answer + "\n\n"},
		"after a mark":               {"\ufeffdata: " + given + "\n\n", "data: " + answer + "\n\n"},
		"in lines":                   {"data: " + strings.Replace(given, ",", ",\ndata: ", 1) + "\n\n", "data: " + answer + "\n\n"},
		"of another id":              {"data: " + strings.Replace(given, "7", `"x"`, 1) + "\n\n", "data: " + answer + "\n\n"},
		"after a notification":       {"data: " + changed + "\n\ndata: " + given + "\n\n", "data: " + changed + "\n\ndata: " + answer + "\n\n"},
		"a comment":                  {": ping\n\nretry: 5\n\n", "retry: 5\n\n"},
		"an id alone":                {"id: 3\ndata: \n\n", "id: 7:3\n\n"},
		"with an id":                 {"id: 3\ndata: " + given + "\n\n", "id: 7:3\ndata: " + answer + "\n\n"},
		"without its end":            {"data: " + given, "data: " + answer + "\n\n"},
		"of another name":            {"event: ping\ndata: {}\n\n", ""},
		"a line without a colon":     {"data\nnonsense\n\ndata: " + given + "\n\n", "data: " + answer + "\n\n"},
		"a broken notification":      {"data: {\"method\":\n\ndata: " + given + "\n\n", "data: " + answer + "\n\n"},
		"only that":                  {"data: {\"method\":\n\n", no},
		"a cut answer":               {"data: {\"jsonrpc\":\"2.0\",\"id\":7,\"resu", no},
		"a cut one that comes again": {"id: 3\n\nid: 4\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"resu", "id: 7:3\n\n"},
		"words":                      {"data: upstream timed out\n\n", no},
		"too long":                   {"data: " + strings.Repeat("x", maxMessage+10) + "\n\n", refused(errTooLong.Error())},
		"too long in lines":          {strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 9) + "\n", refused(errTooLong.Error())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t.Context(), "s", Server{}, Options{Logger: slog.New(slog.DiscardHandler)})
			stream := &events{read: s.read, call: json.RawMessage("7")}
			got, err := io.ReadAll(stream.over(io.NopCloser(strings.NewReader(c.events))))
			if err != nil || string(got) != c.want {
				t.Errorf("got %.500q, %v, want %.500q", got, err, c.want)
			}
			if _, err := io.ReadAll((&events{read: s.read}).over(io.NopCloser(iotest.ErrReader(io.ErrClosedPipe)))); err == nil {
				t.Error("no error")
			}
			older := &events{read: s.read, older: true}
			got, err = io.ReadAll(older.over(io.NopCloser(strings.NewReader("event: endpoint\ndata: /m\n\n" + c.events))))
			want := strings.NewReplacer("id: 7:3\n", "", "retry: 5\n", "").Replace(c.want)
			if want = strings.TrimPrefix(want, "\n"); strings.Contains(c.events, `"x"`) || !strings.Contains(c.events, `"id":7`) {
				want = "" // nobody knows whose it is
			}
			if err != nil || string(got) != "event: endpoint\ndata: /m\n\n"+want && name != "a cut one that comes again" {
				t.Errorf("over the older transport: %.500q, %v, want %.500q", got, err, want)
			}
		})
	}
}

// filler gives ever more of a line.
type filler struct{ left int }

func (f *filler) Read(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestLines has children that write more than messages. An answer that cannot be read is an error of its call, whoever
// writes the id last.
func TestLines(t *testing.T) {
	t.Parallel()
	const message = `{"id":7,"jsonrpc":"2.0","result":{"nextCursor":"b","tools":[]}}`
	refused := func(why string) string {
		return `{"error":{"code":-32005,"message":"` + why + `"},"id":7,"jsonrpc":"2.0"}` + "\n"
	}
	no := refused(errNoMessage.Error())
	long := strings.Repeat("x", 3*maxMessage)
	for name, c := range map[string]struct{ out, want string }{
		"a greeting":            {"hello\n\n  " + message + " \r\n{\"id\":7}\n" + message, message + "\n" + message + "\n"},
		"a mark":                {"\ufeff" + message + "\n", message + "\n"},
		"colours":               {"\x1b[0m\x1b[?25h" + message + "\n", message + "\n"},
		"brackets":              {"[INFO] ready\n[DEBUG] out: " + message + "\n[{\n[]\n[1]\n[\"jsonrpc\"]\n" + message + "\n", message + "\n"},
		"several at once":       {"[" + message + "," + message + "]\n", message + "\n" + message + "\n"},
		"an id as text":         {strings.Replace(message, "7", `"7"`, 1) + "\n", message + "\n"},
		"another id":            {strings.Replace(message, "7", "null", 1) + "\n" + strings.Replace(message, "7", "{}", 1) + "\n", ""},
		"JSON of a log":         {`{"level":30,"msg":"jsonrpc"}` + "\n\"jsonrpc\"\n", ""},
		"words after it":        {message + "PHP Warning: x\n", message + "\n"},
		"a cut answer":          {message[:40] + "\n", no},
		"cut before its id":     {`{"jsonrpc":"2.0","resu` + "\n", ""},
		"a cut request":         {`{"jsonrpc":"2.0","method":"x","id":7,` + "\n", ""},
		"too long":              {`{"jsonrpc":"2.0","id":7,"result":{"x":"` + long + `"}}` + "\n" + message + "\n", refused(errTooLong.Error()) + message + "\n"},
		"too long, id last":     {`{"result":{"x":"` + long + `"},"jsonrpc":"2.0","id":7}` + "\n", refused(errTooLong.Error())},
		"too long, a quoted id": {`{"jsonrpc":"2.0","result":"` + long + `,\"id\":7}"` + "\n", ""},
		"too deep":              {`{"jsonrpc":"2.0","id":7,"result":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + "}\n", refused("its answer nests deeper than 200 levels")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t.Context(), "s", Server{}, Options{Logger: slog.New(slog.DiscardHandler)})
			got, err := io.ReadAll(stdoutOf(io.NopCloser(strings.NewReader(c.out)), s.read, io.Discard))
			if err != nil || string(got) != c.want {
				t.Errorf("got %.500q, %v, want %.500q", got, err, c.want)
			}
		})
	}
	var logged bytes.Buffer
	got, err := io.ReadAll(stdoutOf(io.NopCloser(&filler{20 * maxMessage}), nil, &logged))
	if err != nil || len(got) > 0 || logged.Len() > 20*keptOfLong {
		t.Errorf("read %d bytes, %v, logged %d", len(got), err, logged.Len())
	}
}

// TestRead has messages with odd fields, and what is kept of them.
func TestRead(t *testing.T) {
	t.Parallel()
	many := "[0" + strings.Repeat(",0", toolkit.MaxValues) + "]"
	tool := func(fields string) string { return `{"jsonrpc":"2.0","id":1,"result":{"tools":[` + fields + `]}}` }
	tools := func(list string) string { return `{"id":1,"jsonrpc":"2.0","result":{"tools":[` + list + `]}}` }
	named := func(name string) string { return `{"description":"","name":"` + name + `","title":""}` }
	kept := func(result string) string {
		return `{"id":1,"jsonrpc":"2.0","result":{"_meta":{"voicebridge/json":` + string(toolkit.Encode(result)) + `},"content":[],"isError":false}}`
	}
	object := `{"_meta":{"voicebridge/json":"{\"a\":9007199254740993}"},"description":"d","inputSchema":{"a":9007199254740993},"name":"a","title":""}`
	for message, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":` + many + `}}`:         "error: more than 200000 values",
		`{"jsonrpc":"2.0","method":"notifications/x","params":` + many + `}`: "error: more than 200000 values",
		`{"jsonrpc":"2.0","id":1}`:                                           "error: no message",
		`{"jsonrpc":"2.0","id":1,"re`:                                        "error: no message",
		`"taskSupport"`:                                                      "error: no message",
		tool(`{"name":"a","execution":{"taskSupport":"required"}},{"name":"<b>"},{"name":"c","execution":[]},{"name":"d","execution":"no"}`): tools(named("<b>") + "," + named("c") + "," + named("d")),
		tool(`null,7,"x",[],{},{"name":{}},{"name":7}`):                                                                                  tools(named("7")),
		tool(`{"name":"a","description":"d","inputSchema":{"a":9007199254740993},"annotations":[],"_meta":0}`):                           tools(object),
		tool(`{"name":"a","inputSchema":[],"description":[],"title":{}}`):                                                                tools(named("a")),
		tool(`{"name":"a","inputSchema":{"maximum":1e999}}`):                                                                             tools(`{"_meta":{"voicebridge/json":"{\"maximum\":1e999}"},"description":"","name":"a","title":""}`),
		`{"jsonrpc":"2.0","id":1,"result":{"tools":{"name":"a"},"nextCursor":2}}`:                                                        `{"id":1,"jsonrpc":"2.0","result":{"nextCursor":"2","tools":[` + named("a") + `]}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":{"10":{"name":"b"},"2":{"name":"a"}},"ttlMs":"5"}}`:                                   `{"id":1,"jsonrpc":"2.0","result":{"tools":[` + named("a") + "," + named("b") + `],"ttlMs":5}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":[],"serverInfo":[]}}`:                           `{"id":1,"jsonrpc":"2.0","result":{"capabilities":{},"protocolVersion":"2025-06-18"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"capabilities":{"tools":[],"prompts":7},"instructions":[]}}`:                                  `{"id":1,"jsonrpc":"2.0","result":{"capabilities":{"tools":{"listChanged":false}},"protocolVersion":"2024-11-05"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":"true"}}}}`:             `{"id":1,"jsonrpc":"2.0","result":{"capabilities":{"tools":{"listChanged":true}},"protocolVersion":"2025-06-18"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28",7],"capabilities":{"tools":true},"_meta":"no"}}`:            `{"id":1,"jsonrpc":"2.0","result":{"capabilities":{"tools":{"listChanged":false}},"protocolVersion":"2024-11-05","supportedVersions":["2026-07-28"]}}`,
		`{"jsonrpc":"1.0","id":1,"result":[],"error":null}`:                                                                              kept(`{}`),
		`{"jsonrpc":"2.0","id":1,"result":null,"error":{}}`:                                                                              `{"error":{"code":-32603,"message":"{}"},"id":1,"jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":1,"method":null,"result":"pong"}`:                                                                         kept(`{"content":"pong"}`),
		`{"jsonrpc":"2.0","id":1,"result":{"isError":"true","content":{"type":"text"}}}`:                                                 strings.Replace(kept(`{"content":{"type":"text"},"isError":"true"}`), "false", "true", 1),
		`{"jsonrpc":"2.0","id":1,"error":"no","result":null}`:                                                                            `{"error":{"code":-32603,"message":"no"},"id":1,"jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":"-32602","message":7,"data":[]}}`:                                                       `{"error":{"code":-32602,"data":[],"message":"7"},"id":1,"jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":[]}`:                                                      `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":"0.5","total":"many","message":"m"}}`: `{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"m","progress":0.5,"progressToken":"7","total":0}}`,
		`{"jsonrpc":"2.0","id":"x","method":"roots/list"}`:                                                                               `{"id":"x","jsonrpc":"2.0","method":"roots/list","params":{}}`,
		`{"jsonrpc":"2.0","id":{},"method":"roots/list"}`:                                                                                "error: no message",
	} {
		s := newServer(t.Context(), "s", Server{}, Options{Logger: slog.New(slog.DiscardHandler)})
		messages, err := s.read([]byte(message), nil)
		if wrong, ok := strings.CutPrefix(want, "error: "); ok {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%.200s: got %d messages, %v", message, len(messages), err)
			}
			continue
		}
		if err != nil || len(messages) != 1 {
			t.Errorf("%.200s: got %d messages, %v", message, len(messages), err)
			continue
		}
		testkit.Equal(t, string(messages[0].data), want, "%.200s", message)
		if _, err := jsonrpc.DecodeMessage(messages[0].data); err != nil {
			t.Errorf("%.200s: the SDK cannot read it: %v", message, err)
		}
	}
}
