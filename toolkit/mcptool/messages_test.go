package mcptool

import (
	"bytes"
	"io"
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
