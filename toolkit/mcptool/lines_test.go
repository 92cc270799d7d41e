package mcptool

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"

	"voicebridge/toolkit"
)

// TestEvents has streams with more than messages in them.
func TestEvents(t *testing.T) {
	t.Parallel()
	long := "data: " + strings.Repeat("x", maxMessage+10) + "\n\n"
	for name, c := range map[string]struct{ events, want string }{
		"nothing":                   {},
		"a message":                 {"event: message\ndata: {}\n\n", "event: message\ndata: {}\n\n"},
		"with other line ends":      {"event: message\r\ndata: {}\r\n\r\n", "event: message\r\ndata: {}\r\n\r\n"},
		"in lines":                  {"data: {\ndata: }\n\ndata: {}\n\n", "data: {\ndata: }\n\ndata: {}\n\n"},
		"a comment":                 {": ping\n\ndata: {}\n\n", ": ping\n\ndata: {}\n\n"},
		"an id alone":               {"id: 7\ndata: \n\n", "id: 7\ndata: \n\n"},
		"another one instead":       {"id: 7\nevent: message\ndata: {\"odd\":\ndata: 1}\n\ndata: {}\n\n", "data: {\"even\":2}\nid: 7\nevent: message\n\ndata: {}\n\n"},
		"the same without its end":  {"id: 7\ndata: {\"odd\":1}", "data: {\"even\":2}\nid: 7\n"},
		"a message without its end": {"data: {}", "data: {}"},
		"a long one":                {long, long},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := func(message []byte) []byte {
				if bytes.Contains(message, []byte(`"odd"`)) {
					return []byte(`{"even":2}`)
				}
				return message
			}
			got, err := io.ReadAll(eventsOf(io.NopCloser(strings.NewReader(c.events)), read))
			if err != nil || string(got) != c.want {
				t.Errorf("got %.200q, %v, want %.200q", got, err, c.want)
			}
			if _, err := io.ReadAll(eventsOf(io.NopCloser(iotest.ErrReader(io.ErrClosedPipe)), read)); err == nil {
				t.Error("no error")
			}
		})
	}
}

// filler gives ever more of a line.
type filler struct{}

func (filler) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestLines has children that write more than messages. A line that is longer than a message may be ends the session.
func TestLines(t *testing.T) {
	t.Parallel()
	const message = `{"jsonrpc":"2.0","id":7,"result":{}}`
	var logged bytes.Buffer
	read := func(message []byte) []byte { return message }
	got, err := io.ReadAll(stdoutOf(io.NopCloser(strings.NewReader("hello\n\n  "+message+" \r\n{\"id\":7}\n"+message)), read, &logged))
	if err != nil || string(got) != message+"\n"+message+"\n" || !strings.Contains(logged.String(), "hello") || strings.Contains(logged.String(), "jsonrpc") {
		t.Errorf("read %q, %v, logged %q", got, err, logged.String())
	}
	if got, err := io.ReadAll(stdoutOf(io.NopCloser(filler{}), read, &logged)); len(got) > 0 || err == nil || !strings.Contains(err.Error(), "more than 8388608 bytes") {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

// TestRead has messages of which the SDK sees another form.
func TestRead(t *testing.T) {
	t.Parallel()
	many := "[0" + strings.Repeat(",0", toolkit.MaxValues) + "]"
	for message, want := range map[string]string{
		`{"jsonrpc":"2.0","id":18446744073709551615,"result":{"content":` + many + `}}`:                                                                                         `{"error":{"code":-32005,"message":"its answer has more than 200000 values"},"id":18446744073709551615,"jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","method":"notifications/x","params":` + many + `}`:                                                                                                    `{"error":{"code":-32005,"message":"its answer has more than 200000 values"},"id":null,"jsonrpc":"2.0"}`,
		`{"id":1,"result":{"nextCursor":"b","tools":[{"name":"a","execution":{"taskSupport":"required"}},{"name":"<b>"},{"name":"c","execution":{"taskSupport":"optional"}}]}}`: `{"id":1,"result":{"nextCursor":"b","tools":[{"name":"<b>"},{"name":"c","execution":{"taskSupport":"optional"}}]}}`,
		`{"id":1,"result":{"tools":7,"taskSupport":""}}`:                                                                                                                        "",
		`{"id":1,"result":{"content":"taskSupport"}}`:                                                                                                                           "",
		`"taskSupport"`:  "",
		`{"taskSupport"`: "",
	} {
		s := &server{log: slog.New(slog.DiscardHandler)}
		if got := string(s.read([]byte(message))); want != "" && got != want || want == "" && got != message {
			t.Errorf("%.200s: got %.200s", message, got)
		}
	}
}
