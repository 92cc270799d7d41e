package mcptool

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
)

// TestEvents has streams with more than messages in them.
func TestEvents(t *testing.T) {
	t.Parallel()
	const message = "event: message\ndata: {\"id\":1}\n\n"
	for name, c := range map[string]struct{ events, want string }{
		"a message":                  {message, message},
		"without a name":             {"data: {}\n\n", "data: {}\n\n"},
		"with other line ends":       {"event: message\r\ndata: {}\r\n\r\n", "event: message\r\ndata: {}\r\n\r\n"},
		"in lines":                   {"data: {\ndata: }\n\n", "data: {\ndata: }\n\n"},
		"to be mended":               {"id: 7\nevent: message\ndata: {\"odd\":\ndata: 1}\n\n", "id: 7\ndata: {\ndata: }\n\n"},
		"a comment":                  {": ping\n\n" + message, ": ping\n\n" + message},
		"an endpoint":                {"event: endpoint\ndata: /messages\n\n", "event: endpoint\ndata: /messages\n\n"},
		"an id alone":                {"id: 7\ndata: \n\n", "id: 7\ndata: \n\n"},
		"a beat":                     {"event: ping\ndata: 2026-11-23\n\n" + message, message},
		"a beat without data":        {"event: message\n\n" + message, message},
		"a beat that is no message":  {"data: ping\n\n" + message, message},
		"a message that is refused":  {"event: message\ndata: {\"no\":1}\n\n" + message, message},
		"the same with an id":        {"id: 7\ndata: {\"no\":1}\n\n" + message, "id: 7\n\n" + message},
		"a message that is cut":      {message + "data: {\"id\":", message},
		"a message without its end":  {"data: {}", "data: {}"},
		"a beat that is cut, and on": {"event: pi\n\n" + message, message},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := func(message []byte) []byte {
				switch {
				case bytes.Contains(message, []byte(`"no"`)):
					return nil
				case bytes.Contains(message, []byte(`"odd"`)):
					return []byte("{\n}")
				default:
					return message
				}
			}
			got, err := io.ReadAll(messagesOf(io.NopCloser(iotest.OneByteReader(strings.NewReader(c.events))), read, false, nil))
			if err != nil || string(got) != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// TestUnreadableLines has lines of a child that the SDK would take for the end of the session. If one is the answer to a
// call, the call fails at once.
func TestUnreadableLines(t *testing.T) {
	t.Parallel()
	s := &server{log: slog.New(slog.DiscardHandler)}
	const refused = `{"error":{"code":-32005,"message":"its answer is not a message of MCP"},"id":7,"jsonrpc":"2.0"}` + "\n"
	long := strings.Repeat("x", 100<<10)
	for name, c := range map[string]struct{ line, want string }{
		"readable":             {`{"jsonrpc":"2.0","id":7,"result":{}}`, `{"jsonrpc":"2.0","id":7,"result":{}}` + "\n"},
		"no number":            {`{"jsonrpc": "2.0", "id": 7, "result": {"structuredContent": {"mean": NaN}}}`, refused},
		"the same, longer":     {`{"jsonrpc": "2.0", "id": 7, "result": {"structuredContent": {"mean": NaN, "x": "` + long + `"}}}`, refused},
		"an error in a word":   {`{"error":"no","id":7,"jsonrpc":"2.0"}`, refused},
		"the same, longer yet": {`{"error":"` + long + `","jsonrpc":"2.0","id":7}`, refused},
		"a request":            {`{"jsonrpc":"2.0","id":7,"method":5}`, ""},
		"no id":                {`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}`, ""},
		"no message":           {`{"id":7,`, ""},
	} {
		var logged bytes.Buffer
		got, err := io.ReadAll(linesOf(io.NopCloser(strings.NewReader(c.line+"\n")), s.read, &logged))
		if err != nil || string(got) != c.want || (logged.Len() > 0) != (name != "readable") {
			t.Errorf("%s: %.200s, %v, want %s, logged %d bytes", name, got, err, c.want, logged.Len())
		}
	}
}
