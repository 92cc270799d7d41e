package web

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"golang.org/x/tools/txtar"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
)

// TestRequests sends the requests in testdata/requests. In the file "requests" of each, a line that is not indented is a
// request, and the indented lines below it are its answer: the status, those of the answer's headers that are in
// answerHeaders, and the body. Lines beginning with # are comments.
//
//	[OWNER|NAME=VALUE …] METHOD TARGET [BODY]   the owner whose token is sent, headers; a body that is no line is a
//	                                            Go string after a =; JSON unless a Content-Type says otherwise
//
//	there REQUEST                               it is sent to another process
//	~ REQUEST                                   of its answer only the status is written
//	shown TARGET                                the roles and words of the messages there
//	reads                                       how often the model was asked, and what it has read last
//	more                                        has an answer that "holds" go on
//	NAME follows [OWNER|NAME=VALUE …] METHOD TARGET [BODY]   a stream
//	NAME watches [OWNER|NAME=VALUE …] TARGET    a socket
//	NAME next, NAME until KIND                  an event, or that of a kind; of a stream's only the id is written
//	NAME rest                                   what a stream was from its beginning to its end, or how a socket ends
//	NAME sends TEXT, NAME leaves
//
// In requests ${text*N} repeats a text, and <1>, <2> … are the ids and secrets that came in answers, in their order; … stands for
// what varies, such as times. The file "setup" has a line for each change of the configuration: "owners" are alice
// and bob, "limits" and "names" change those fields of [Config], "says", "calls", "fails" and "holds" are
// what the model answers, one after another; "origins" may use it, and "stops" has a turn end with its reader.
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
						testkit.Equal(t, got, string(f.Data), "got")
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
	b       *bundle
	model   *script
	server  *httptest.Server
	other   *bundle         // another process
	held    []chan struct{} // answers that wait
	streams map[string]*follower
	sockets map[string]*websocket.Conn
	// seen are the ids and secrets in answers.
	seen []string
}

func newRequests(t *testing.T, configuration string) *requests {
	t.Helper()
	var changes []func(*Config)
	var answers []scripted
	s := &requests{model: new(script), streams: map[string]*follower{}, sockets: map[string]*websocket.Conn{}}
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
		case "fails":
			answers = append(answers, failure("", llm.ErrorKind(rest)))
		case "holds":
			s.held = append(s.held, make(chan struct{}))
			answers = append(answers, held(rest, s.held[len(s.held)-1]))
		case "origins":
			changes = append(changes, func(c *Config) { c.AllowedOrigins = strings.Fields(rest) })
		case "stops":
			changes = append(changes, func(c *Config) { c.StopWithReader = true })
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
		s.b = setup(t, change)
	} else {
		var texts chat.Config
		texts, s.model = scriptedChat(answers...)
		s.b = setupChat(t, texts, change)
		s.other = s.b.otherProcess(t, texts)
	}
	s.b.door.timing.PingEvery = patience // its clients read when the script says so
	s.server = s.b.listen(t)
	return s
}

var (
	connection    = regexp.MustCompile(`^(\w+) (follows|watches|next|until|rest|leaves|sends)\b ?(.*)`)
	method        = regexp.MustCompile(`(?:^| )(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) `)
	repeated      = regexp.MustCompile(`\$\{(.+?)\*(\d+)\}`)
	reference     = regexp.MustCompile(`<(\d+)>`)
	given         = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|q-\d{10}-[0-9a-f]{8}|(?:ek|whsec)_[\w+/=-]+|(?:msg_|once-)[0-9a-f]{32}|/s/[\w-]+`)
	varying       = regexp.MustCompile(`"20[012]\d-\d\d-\d\dT[\d:.]+Z"|"latency_ms":\{[^}]*\}|\[CONTEXT: [^\]]*\]|"next_cursor":"[^"]*"|"reset_seq":(?:[2-9]|\d\d)\d*`)
	counted       = regexp.MustCompile(`"(seq|next_after|server_max_seq)":\d+`)
	answerHeaders = []string{"Allow", "Content-Type", "Location", "Retry-After", "Upgrade", "Www-Authenticate", "X-Thread-Id"}
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
		line = s.expand(t, strings.TrimSuffix(line, "\n"))
		request, quiet := strings.CutPrefix(line, "~ ")
		request, there := strings.CutPrefix(request, "there ")
		at := method.FindStringSubmatchIndex(request)
		switch c := connection.FindStringSubmatch(line); {
		case line == "" || line[0] == '#':
		case c != nil:
			out.WriteString(s.mask(s.connection(t, c[1], c[2], c[3])))
		case at != nil:
			target, body, _ := strings.Cut(request[at[1]:], " ")
			b := s.b
			if there {
				b = s.other
			}
			answer := s.one(t, b, headers(strings.Fields(request[:at[0]])), request[at[2]:at[3]], target, body)
			if quiet {
				answer = answer[:len("\t200")] + "\n"
			}
			out.WriteString(answer)
		case line == "more":
			close(s.held[0])
			s.held = s.held[1:]
		case line == "reads":
			asked, read := s.model.lastRead()
			fmt.Fprintf(&out, "\t%d: %s\n", asked, read)
		default:
			target, isShown := strings.CutPrefix(line, "shown ")
			if !isShown {
				t.Fatalf("a line %q", line)
			}
			fmt.Fprintf(&out, "\t%s\n", shown(decode[messagePage](t, s.b.do(t, "GET", target, "")).Messages))
		}
	}
	return out.String()
}

// headers returns the names and values of headers that options stand for.
func headers(options []string) (all []string) {
	for _, o := range options {
		name, value, isHeader := strings.Cut(o, "=")
		if !isHeader {
			name, value = "Authorization", "Bearer "+o+"-token-of-tests"
		}
		all = append(all, name, value)
	}
	return all
}

// connection does something with a stream or socket, and returns the lines of what came.
func (s *requests) connection(t *testing.T, name, verb, rest string) string {
	t.Helper()
	stream, socket := s.streams[name], s.sockets[name]
	switch {
	case verb == "follows":
		at := method.FindStringSubmatchIndex(rest)
		target, body, _ := strings.Cut(rest[at[1]:], " ")
		s.streams[name] = follow(t, s.server, rest[at[2]:at[3]], target, body, headers(strings.Fields(rest[:at[0]]))...)
		return fmt.Sprintf("\t%d\n", s.streams[name].r.StatusCode)
	case verb == "watches":
		fields := strings.Fields(rest)
		last := len(fields) - 1
		var status int
		s.sockets[name], status, _ = dial(t, strings.Replace(s.server.URL, "http", "ws", 1)+fields[last], headers(fields[:last])...)
		return fmt.Sprintf("\t%d\n", status)
	case verb == "sends":
		must(t, socket.Write(within(t), websocket.MessageText, []byte(rest)))
	case verb == "leaves" && stream != nil:
		stream.stop()
		must(t, stream.lost())
	case verb == "leaves":
		must(t, socket.Close(websocket.StatusNormalClosure, ""))
	case verb == "until" && stream != nil:
		return fmt.Sprintf("\t%s\n", stream.until(rest).id)
	case verb == "until" || verb == "next":
		for {
			// How many of those come depends on the time.
			if e := next(t, socket); string(e.Type) == rest || rest == "" && e.Type != persistence.EventMessageDelta {
				return fmt.Sprintf("\t%s %s\n", e.Type, e.Data)
			}
		}
	case stream != nil:
		var kinds []string
		text := ""
		for _, e := range parseStream(t, stream.rest()) {
			if e.kind == "text-delta" {
				text += fmt.Sprint(e.body["delta"])
				continue
			}
			if text != "" {
				kinds, text = append(kinds, strconv.Quote(text)), ""
			}
			kinds = append(kinds, e.kind)
		}
		return "\t" + strings.Join(kinds, " ") + "\n"
	default:
		var err error
		for ctx := within(t); err == nil; {
			_, _, err = socket.Read(ctx)
		}
		return fmt.Sprintf("\t%v\n", err)
	}
	return ""
}

// one sends a request and returns the lines of its answer.
func (s *requests) one(t *testing.T, b *bundle, headers []string, method, target, body string) string {
	t.Helper()
	if quoted, ok := strings.CutPrefix(body, "="); ok {
		var err error
		if body, err = strconv.Unquote(quoted); err != nil {
			t.Fatalf("%.100s: %v", quoted, err)
		}
	}
	var with []option
	if body != "" {
		with = append(with, header("Content-Type", "application/json"))
	}
	for pair := range slices.Chunk(headers, 2) {
		with = append(with, header(pair[0], pair[1]))
	}
	r := b.do(t, method, target, body, with...)
	var line strings.Builder
	line.WriteString(fmt.Sprintf("\t%d", r.StatusCode))
	for _, name := range answerHeaders {
		if value := r.Header.Get(name); value != "" && value != "application/json" {
			line.WriteString(fmt.Sprintf(" %s=%s", name, value))
		}
	}
	text := strings.TrimSuffix(r.body, "\n")
	if strings.ContainsRune(text, '\r') {
		text = strconv.Quote(text)
	}
	for l := range strings.Lines(text) {
		if l = strings.TrimSuffix(l, "\n"); l != "" && !strings.HasPrefix(l, ":") { // a stream is kept alive by comments
			line.WriteString("\n\t" + l)
		}
	}
	return s.mask(line.String()) + "\n"
}

// mask replaces what varies, such as how often a turn had time to save what it said until a reset, and ids and secrets by their numbers.
func (s *requests) mask(line string) string {
	if s.other != nil { // how often a turn saves what it has depends on the time
		line = counted.ReplaceAllString(line, `"$1":…`)
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
	})
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
