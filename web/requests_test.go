package web

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// TestRequests sends the requests in testdata/requests. In the file "requests" of each, a line that is not indented is a
// request, and the indented lines below it are its answer: the status, those of the answer's headers that are in
// answerHeaders, and the body. Lines beginning with # are comments.
//
//	[OWNER|NAME=VALUE …] METHOD TARGET [BODY]   the owner whose token is sent, headers; a body that is no line is a
//	                                            Go string after a =; JSON unless a Content-Type says otherwise
//
// In requests ${text*N} repeats a text, and <1>, <2> … are the ids and secrets that came in answers, in their order; … stands for
// what varies, such as times. The file "setup" has a line for each change of the configuration: "owners" are alice
// and bob, "limits" and "names" change those fields of [Config], "says" and "calls" are what the model answers, one after another.
func TestRequests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/requests/*.txtar")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d files of requests, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			must(t, err)
			configuration := ""
			for i, f := range archive.Files {
				switch f.Name {
				case "setup":
					configuration = string(f.Data)
				case "requests":
					got := newRequests(t, configuration).send(t, string(f.Data))
					if !*update {
						if diff := cmp.Diff(string(f.Data), got); diff != "" {
							t.Errorf("(-want +got):\n%s", diff)
						}
						continue
					}
					archive.Files[i].Data = []byte(got)
					must(t, os.WriteFile(file, txtar.Format(archive), 0o600))
				default:
					t.Errorf("%s has a file %q", file, f.Name)
				}
			}
		})
	}
}

// requests sends requests to a server.
type requests struct {
	b *bundle
	// seen are the ids and secrets in answers.
	seen []string
}

func newRequests(t *testing.T, configuration string) *requests {
	t.Helper()
	var changes []func(*Config)
	var answers []scripted
	for line := range strings.Lines(configuration) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "owners":
			changes = append(changes, tokens)
		case "limits":
			changes = append(changes, func(c *Config) { must(t, json.Unmarshal([]byte(rest), &c.Limits)) })
		case "names":
			changes = append(changes, func(c *Config) { must(t, json.Unmarshal([]byte(rest), &c.AssistantNames)) })
		case "says":
			answers = append(answers, words(rest))
		case "calls":
			answers = append(answers, toolCalls("", strings.SplitN(rest, " ", 3)...))
		default:
			t.Fatalf("setup has a line %q", line)
		}
	}
	change := func(c *Config) {
		for _, one := range changes {
			one(c)
		}
	}
	if answers == nil {
		return &requests{b: setup(t, change)}
	}
	texts, _ := scriptedChat(answers...)
	return &requests{b: setupChat(t, texts, change)}
}

var (
	method        = regexp.MustCompile(`(?:^| )(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) `)
	repeated      = regexp.MustCompile(`\$\{(.+?)\*(\d+)\}`)
	reference     = regexp.MustCompile(`<(\d+)>`)
	given         = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|q-\d{10}-[0-9a-f]{8}|(?:ek|whsec)_[\w+/=-]+|msg_[0-9a-f]{32}|/s/[\w-]+`)
	varying       = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[\d:.]+Z"|"latency_ms":\{[^}]*\}|\[CONTEXT: [^\]]*\]|"next_cursor":"[^"]*"`)
	answerHeaders = []string{"Allow", "Content-Type", "Location", "Retry-After", "Www-Authenticate", "X-Thread-Id"}
)

// send sends the requests of a script and returns it with the answers.
func (s *requests) send(t *testing.T, script string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "\t") {
			continue
		}
		out.WriteString(line)
		if at := method.FindStringSubmatchIndex(line); at != nil && line[0] != '#' {
			target, body, _ := strings.Cut(strings.TrimSuffix(line[at[1]:], "\n"), " ")
			out.WriteString(s.one(t, strings.Fields(line[:at[0]]), line[at[2]:at[3]], s.expand(t, target), s.expand(t, body)))
		}
	}
	return out.String()
}

// one sends a request and returns the lines of its answer.
func (s *requests) one(t *testing.T, options []string, method, target, body string) string {
	t.Helper()
	if quoted, ok := strings.CutPrefix(body, "="); ok {
		var err error
		if body, err = strconv.Unquote(quoted); err != nil {
			t.Fatalf("%.100s: %v", quoted, err)
		}
	}
	with := []option{header("Content-Type", "application/json")}
	if body == "" {
		with = nil
	}
	for _, o := range options {
		if name, value, isHeader := strings.Cut(o, "="); isHeader {
			with = append(with, header(name, value))
		} else {
			with = append(with, as(o+"-token-of-tests"))
		}
	}
	r := s.b.do(t, method, target, body, with...)
	line := fmt.Sprintf("\t%d", r.StatusCode)
	for _, name := range answerHeaders {
		if value := r.Header.Get(name); value != "" && value != "application/json" {
			line += fmt.Sprintf(" %s=%s", name, value)
		}
	}
	text := strings.TrimSuffix(r.body, "\n")
	if strings.ContainsRune(text, '\r') {
		text = strconv.Quote(text)
	}
	for l := range strings.Lines(text) {
		if l = strings.TrimSuffix(l, "\n"); l != "" && !strings.HasPrefix(l, ":") { // a stream is kept alive by comments
			line += "\n\t" + l
		}
	}
	line = varying.ReplaceAllStringFunc(line, func(found string) string {
		if name, _, pair := strings.Cut(found, ":"); pair && found[1] > '9' {
			return name + ":…"
		}
		return `"…"`
	})
	return given.ReplaceAllStringFunc(line, func(found string) string {
		i := slices.Index(s.seen, found)
		if i < 0 {
			i = len(s.seen)
			s.seen = append(s.seen, found)
		}
		return fmt.Sprintf("<%d>", i+1)
	}) + "\n"
}

// expand replaces what stands for something else in a request.
func (s *requests) expand(t *testing.T, text string) string {
	t.Helper()
	text = reference.ReplaceAllStringFunc(text, func(found string) string {
		n, err := strconv.Atoi(reference.FindStringSubmatch(found)[1])
		if err != nil || n == 0 || n > len(s.seen) {
			t.Fatalf("%s is not known yet", found)
		}
		return s.seen[n-1]
	})
	return repeated.ReplaceAllStringFunc(text, func(found string) string {
		parts := repeated.FindStringSubmatch(found)
		n, err := strconv.Atoi(parts[2])
		must(t, err)
		return strings.Repeat(parts[1], n)
	})
}
