package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"voicebridge/assistant"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/toolkit"
	"voicebridge/web/access"
	"voicebridge/web/uistream"
)

var update = flag.Bool("update", false, "write the files in testdata anew")

// streamEvent is one server-sent event as it was parsed.
type streamEvent struct {
	id   string
	data string
	kind string // the chunk's type
	body map[string]any
}

// parseStream reads a whole stream, which must end as the protocol says.
func parseStream(t *testing.T, body string) []streamEvent {
	t.Helper()
	var out []streamEvent
	for block := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		if e, ok := parseEvent(t, block); ok {
			out = append(out, e)
		}
	}
	if len(out) == 0 || out[len(out)-1].data != "[DONE]" {
		t.Fatalf("the stream does not end as it should: %s", body)
	}
	return out[:len(out)-1]
}

// parseEvent reads the lines of one event; a comment contains none.
func parseEvent(t *testing.T, block string) (streamEvent, bool) {
	t.Helper()
	var e streamEvent
	for line := range strings.SplitSeq(block, "\n") {
		switch key, value, ok := strings.Cut(line, ": "); {
		case strings.HasPrefix(line, ":"):
			return e, false
		case line == "id": // makes the client forget the id it has
		case ok && key == "id":
			e.id = value
		case ok && key == "data" && e.data == "":
			e.data = value
		default:
			t.Fatalf("line %q", line)
		}
	}
	if e.data != "[DONE]" {
		if err := json.Unmarshal([]byte(e.data), &e.body); err != nil {
			t.Fatalf("data %q: %v", e.data, err)
		}
		e.kind, _ = e.body["type"].(string)
	}
	return e, true
}

func kinds(events []streamEvent) string {
	var out []string
	for _, e := range events {
		out = append(out, e.kind)
	}
	return strings.Join(out, " ")
}

// oneTool is a server tool with one fixed result.
type oneTool struct {
	name   string
	result toolkit.Result
}

func (o oneTool) Definition() toolkit.Definition {
	return toolkit.Definition{Name: o.name, Description: "a tool", Parameters: json.RawMessage(`{"type":"object"}`)}
}

func (o oneTool) Call(context.Context, toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		if yield(toolkit.Chunk{Message: "half way", Percent: 50, Data: json.RawMessage(`{"step":1}`)}, nil) {
			yield(toolkit.Chunk{Result: &o.result}, nil)
		}
	}
}

// streamTools are a built-in tool, one of an MCP server, and one that fails.
func streamTools(t *testing.T) func(context.Context, string, assistant.Assistant) (*toolkit.Registry, error) {
	t.Helper()
	r := toolkit.NewRegistry()
	for _, e := range []toolkit.Entry{
		{Tool: oneTool{"add", toolkit.Result{Output: json.RawMessage(`{"sum":3}`)}}, Executor: toolkit.ExecutorApp},
		{Tool: oneTool{"mail__send", toolkit.Result{Output: json.RawMessage(`"sent"`)}}, Executor: toolkit.ExecutorMCP, Server: "mail"},
		{Tool: oneTool{"broken", toolkit.Result{Error: "it is broken"}}, Executor: toolkit.ExecutorApp},
	} {
		must(t, r.Add(e))
	}
	return func(context.Context, string, assistant.Assistant) (*toolkit.Registry, error) { return r, nil }
}

// follower reads a stream event by event from a real server.
type follower struct {
	t    *testing.T
	r    *http.Response
	in   *bufio.Reader
	read bytes.Buffer
	stop context.CancelFunc
}

func (b *bundle) listen(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(b.Server)
	t.Cleanup(server.Close)
	return server
}

func follow(t *testing.T, server *httptest.Server, method, path, body string, headers ...string) *follower {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
	must(t, err)
	req.Header.Set("Accept", uistream.MediaType)
	req.Header.Set("Accept-Encoding", "gzip")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	r, err := server.Client().Do(req)
	must(t, err)
	t.Cleanup(func() { _ = r.Body.Close() })
	return &follower{t: t, r: r, in: bufio.NewReader(r.Body), stop: cancel}
}

// until reads up to the first event of a kind and returns it.
func (f *follower) until(kind string) streamEvent {
	f.t.Helper()
	for block := ""; ; {
		line, err := f.in.ReadString('\n')
		if err != nil {
			f.t.Fatalf("no %s: %v", kind, err)
		}
		f.read.WriteString(line)
		if line != "\n" {
			block += line
			continue
		}
		e, ok := parseEvent(f.t, strings.TrimSuffix(block, "\n"))
		if block = ""; ok && e.kind == kind {
			return e
		}
		if !ok && kind == "comment" {
			return e
		}
	}
}

// lost waits until the server no longer has the stream.
func (f *follower) lost() error {
	_, err := io.Copy(io.Discard, f.in)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("the stream ended with %w", err)
}

// rest reads to the end and returns the whole stream.
func (f *follower) rest() string {
	f.t.Helper()
	if _, err := io.Copy(&f.read, f.in); err != nil {
		f.t.Fatal(err)
	}
	return f.read.String()
}

// transcript is the content of a golden file: a stream and the thread as it is read
// afterwards.
type transcript struct {
	Stream   string            `json:"stream"`
	Messages []json.RawMessage `json:"messages"`
}

// TestStreams compares the streams with the golden files, which the page's tests read with
// the AI SDK's own reader.
func TestStreams(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers   []scripted
		interrupt bool
	}{
		"text": {answers: []scripted{words("Good ", "morning. ", "<b>&\u2028 \"quoted\"")}},
		"tools": {answers: []scripted{
			toolCalls("Let me see. ", "c1", "add", `{"a":1,"b":2}`), toolCalls("", "c2", "mail__send", `{"to":"x"}`),
			toolCalls("Hm.", "c3", "broken", `{}`), toolCalls("", "c4", "nowhere", `{"a":`), words("It is three."),
		}},
		"interrupted": {answers: []scripted{held("Once upon", nil)}, interrupt: true},
		"failed":      {answers: []scripted{failure("It is", llm.KindQuota)}},
		"silent":      {answers: []scripted{failure("", llm.KindAuth)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, _ := scriptedChat(c.answers...)
			cfg.Tools = streamTools(t)
			b := setupChat(t, cfg, nil)
			key := b.thread(t, access.LocalOwner)
			server := b.listen(t)
			f := follow(t, server, "POST", messagesPath(key), `{"content":"hello"}`)
			h := f.r.Header
			if f.r.StatusCode != http.StatusOK || h.Get(uistream.Header) != "v1" || h.Get("Content-Type") != uistream.MediaType || h.Get("Content-Encoding") != "" || h.Get("Cache-Control") != "no-store" {
				t.Fatalf("status %d, headers %v", f.r.StatusCode, h)
			}
			if c.interrupt {
				f.until("text-delta")
				wantStatus(t, b.do(t, "POST", "/api/threads/"+key.Thread+"/interrupt", ""), 200)
			}
			whole := f.rest()
			events := parseStream(t, whole)
			if first, last := events[0], events[len(events)-1]; first.kind != "start" || last.kind != "finish" {
				t.Errorf("the stream is %s", kinds(events))
			}
			compare(t, name, whole, b.do(t, "GET", messagesPath(key), "").body)
		})
	}
}

// compare compares a stream and a thread with their golden file.
func compare(t *testing.T, name, stream, page string) {
	t.Helper()
	var read struct{ Messages []json.RawMessage }
	must(t, json.Unmarshal([]byte(page), &read))
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	must(t, encoder.Encode(transcript{stream, read.Messages}))
	got := steady(strings.ReplaceAll(buf.String(), `: keep-alive\n\n`, "")) // on a busy machine
	file := filepath.Join("testdata", "uistream", name+".json")
	if *update {
		must(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(got), 0o644)))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	testkit.Equal(t, got, string(want), "the stream or the thread differs from %s (-update writes it)", file)
}

var (
	anyID      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anyNonce   = regexp.MustCompile(`[A-Z2-7]{26}`)
	anyTime    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	anyContext = regexp.MustCompile(`\[CONTEXT:[^\]]*\]`)
	anyLatency = regexp.MustCompile(`((?:first_token|total|[a-z_]+)\\?": ?)\d+(,|\s*\n?\s*\}|\})`)
	latencies  = regexp.MustCompile(`(?s)latency_ms\\?": ?\{.*?\}`)
)

// steady replaces what differs from run to run.
func steady(text string) string {
	ids := map[string]string{}
	for _, kind := range []*regexp.Regexp{anyID, anyNonce} {
		text = kind.ReplaceAllStringFunc(text, func(id string) string {
			if ids[id] == "" {
				ids[id] = fmt.Sprintf("id-%d", len(ids)+1)
			}
			return ids[id]
		})
	}
	text = anyContext.ReplaceAllString(text, "[CONTEXT: now]")
	text = anyTime.ReplaceAllString(text, "2026-01-02T03:04:05Z")
	text = latencies.ReplaceAllStringFunc(text, func(all string) string { return anyLatency.ReplaceAllString(all, "${1}1$2") })
	return text
}

func TestStreamStaysAliveAndEndsWithTheServer(t *testing.T) {
	t.Parallel()
	cfg, _ := scriptedChat(held("One.", nil))
	b := setupChat(t, cfg, nil)
	b.streaming.KeepAlive = 10 * time.Millisecond
	key := b.thread(t, access.LocalOwner)
	f := follow(t, b.listen(t), "POST", messagesPath(key), `{"content":"hello"}`)
	f.until("text-delta")
	f.until("comment")
	f.until("comment")
	b.chat.Running(key).Interrupt()
	if got := kinds(parseStream(t, f.rest())); !strings.HasSuffix(got, "abort finish") {
		t.Errorf("the stream is %s", got)
	}
}

func TestAcceptsAStream(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	key := b.thread(t, access.LocalOwner)
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "application/json": false, "text/event-streams": false, "text/html;a=text/event-stream": false,
		"text/event-stream": true, "Text/Event-Stream; q=0.9": true, "application/json, text/event-stream": true,
	} {
		r := b.do(t, "POST", messagesPath(key), `{"content":"hello"}`, header("Accept", accept))
		if got := r.Header.Get("Content-Type") == uistream.MediaType; r.StatusCode != http.StatusOK || got != want {
			t.Errorf("%q: status %d, type %s", accept, r.StatusCode, r.Header.Get("Content-Type"))
		}
	}
}
