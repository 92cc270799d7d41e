package mcptool

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// oddAnswers are those of a server that is newer than we are, or less strict.
var oddAnswers = map[string]string{
	"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"odd","version":"1"}}`,
	"tools/list": `{"_meta":[],"tools":[{"name":"plain","inputSchema":{"type":"object"},"annotations":[],"_meta":[]},` +
		`{"name":7},{"name":"worded","inputSchema":{"type":"object"},"description":["of","lines"]}]}`,
	"tools/call": `{"_meta":[],"content":[{"type":"text","text":"before"},{"type":"hologram","data":"?"},{"type":"text","text":"after","annotations":[]}]}`,
}

// oddError is its answer to a notification, which has none.
const oddError = `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}`

// TestOddServer has a server whose lists and results the SDK refuses as a whole.
func TestOddServer(t *testing.T) {
	t.Parallel()
	formats := map[string]struct{ kind, format string }{
		"json":  {"application/json", "%[2]s"},
		"batch": {"application/json", `[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}},%[2]s]`},
		"sse":   {"text/event-stream", "event: message\ndata: %[1]s\n\nevent: message\ndata: %[2]s\n\n"},
	}
	servers := map[string]Server{"lines": stdio("odd", nil)}
	for name, f := range formats {
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var request struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&request) != nil || request.ID == nil {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			result, ok := oddAnswers[request.Method]
			if !ok {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", f.kind)
			fmt.Fprintf(w, f.format, oddError, fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s","result":%s}`, request.ID, result))
		})
		servers[name] = Server{Type: TypeHTTP, URL: serveHandler(t, handler).url}
	}
	b := open(t, servers)
	b.log.await(t, `msg="MCP server connected"`, 4)
	b.register(t)
	if got := b.names(); !slices.Equal(got, []string{"batch__plain", "json__plain", "lines__plain", "sse__plain"}) {
		t.Errorf("the tools are %q\n%s", got, b.log)
	}
	if text := b.log.String(); strings.Count(text, `definitions cannot be read or they run only as tasks" server=`) != 4 || !strings.Contains(text, `tools=", worded"`) {
		t.Errorf("the log has\n%s", text)
	}
	want := "before\n[left out: content of the type \"hologram\", which cannot be read]\nafter"
	for _, name := range b.names() {
		if result := b.call(t, name, ""); result.Model != want {
			t.Errorf("%s: got %+v", name, result)
		}
	}
}

func TestMendedContent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ content, want string }{
		"one piece":           {`{"type":"text","text":"a"}`, `[{"type":"text","text":"a"}]`},
		"a string":            {`"a"`, `[{"text":"a","type":"text"}]`},
		"strings":             {`["a","b"]`, `[{"text":"a","type":"text"},{"text":"b","type":"text"}]`},
		"no type":             {`[{"text":"a"}]`, `[{"text":"[left out: content of the type \"\", which cannot be read]","type":"text"}]`},
		"a number":            {`[7]`, `[{"text":"[left out: content of the type \"\", which cannot be read]","type":"text"}]`},
		"what is not Base64":  {`[{"type":"image","data":"?","mimeType":"a/b"}]`, `[{"text":"[left out: content of the type \"image\", which cannot be read]","type":"text"}]`},
		"a long type":         {`[{"type":"` + strings.Repeat("x", 1000) + `"}]`, `[{"text":"[left out: content of the type \"` + strings.Repeat("x", 63) + `…\", which cannot be read]","type":"text"}]`},
		"an odd size":         {`[{"type":"resource_link","uri":"a:b","name":"c","size":"7 kB"}]`, `[{"name":"c","type":"resource_link","uri":"a:b"}]`},
		"odd annotations":     {`[{"type":"text","text":"<a>","annotations":{"priority":"high"}}]`, `[{"text":"<a>","type":"text"}]`},
		"nothing but a null":  {`[null]`, `[{"text":"","type":"text"}]`},
		"what is as it is":    {`[{"type":"text","text":"<a>"}]`, ""},
		"null for the list":   {`null`, ""},
		"an empty list":       {`[]`, ""},
		"a deep part unknown": {`[{"type":"resource","resource":{"uri":7}}]`, `[{"text":"[left out: content of the type \"resource\", which cannot be read]","type":"text"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			message := `{"jsonrpc":"2.0","id":18446744073709551615,"result":{"content":` + c.content + `,"isError":true}}`
			got, left := mend([]byte(message))
			want := message
			if c.want != "" {
				want = `{"id":18446744073709551615,"jsonrpc":"2.0","result":{"content":` + c.want + `,"isError":true}}`
			}
			if d := cmp.Diff(want, string(got)); d != "" || left != nil {
				t.Errorf("left %q (-want +got):\n%s", left, d)
			}
		})
	}
}

// TestListIsReadAgain has a list that its server says will not change for an hour.
func TestListIsReadAgain(t *testing.T) {
	t.Parallel()
	got, left := mend([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"ttlMs":3600000,"nextCursor":"b"}}`))
	want := `{"id":1,"jsonrpc":"2.0","result":{"nextCursor":"b","tools":[{"name":"a","inputSchema":{"type":"object"}}]}}`
	if d := cmp.Diff(want, string(got)); d != "" || left != nil {
		t.Errorf("left %q (-want +got):\n%s", left, d)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		`{"jsonrpc":"2.0","id": "17","result":{}}`:                     `{"id":17,"jsonrpc":"2.0","result":{}}`,
		`{"jsonrpc":"2.0","id":"0","error":{"code":1,"message":"<"}}`:  `{"error":{"code":1,"message":"<"},"id":0,"jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":"017","result":{}}`:                     "",
		`{"jsonrpc":"2.0","id":"server-error","result":{}}`:            "",
		`{"jsonrpc":"2.0","id":"17","method":"ping"}`:                  "",
		`{"jsonrpc":"2.0","id":17,"result":{"a":{"id":"18"}}}`:         "",
		`{"jsonrpc":"2.0","method":"notifications/x","p":{"id":"18"}}`: "",
	} {
		if got, _ := mend([]byte(message)); want != "" && string(got) != want || want == "" && string(got) != message {
			t.Errorf("got %s of %s", got, message)
		}
	}
}
