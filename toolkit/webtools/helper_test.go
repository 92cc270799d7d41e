package webtools

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"voicebridge/toolkit"
)

// loopback opens 127.0.0.1 and the ports of servers to a test.
func loopback(tb testing.TB, servers ...*httptest.Server) Config {
	tb.Helper()
	c := Config{AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	for _, s := range servers {
		c.AllowPorts = append(c.AllowPorts, portNumber(tb, s.URL))
	}
	return c
}

func portNumber(tb testing.TB, address string) int {
	tb.Helper()
	u, err := url.Parse(address)
	must(tb, err)
	n, err := strconv.Atoi(u.Port())
	must(tb, err)
	return n
}

func serve(tb testing.TB, handler http.HandlerFunc) *httptest.Server {
	tb.Helper()
	s := httptest.NewServer(handler)
	tb.Cleanup(s.Close)
	return s
}

// newRouter makes a router with the tools. Where a test sets no limit, nothing takes too long on a busy machine.
func newRouter(tb testing.TB, c Config) *toolkit.Router {
	tb.Helper()
	c.Timeout, c.pageTimeout = cmp.Or(c.Timeout, 2*time.Minute), cmp.Or(c.pageTimeout, time.Minute)
	c.httpTimeout, c.connectTimeout = cmp.Or(c.httpTimeout, time.Minute), cmp.Or(c.connectTimeout, time.Minute)
	registry := toolkit.NewRegistry()
	for _, tool := range New(c) {
		must(tb, registry.Add(toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp}))
	}
	return toolkit.NewRouter(registry, toolkit.RouterConfig{Timeout: 5 * time.Minute})
}

// call runs a tool with an input, which is marshalled unless it is a string.
func call(tb testing.TB, router *toolkit.Router, name string, input any) toolkit.Result {
	tb.Helper()
	result, _ := callWithProgress(tb, tb.Context(), router, name, input)
	return result
}

func callWithProgress(tb testing.TB, ctx context.Context, router *toolkit.Router, name string, input any) (toolkit.Result, []toolkit.Chunk) {
	tb.Helper()
	arguments, ok := input.(string)
	if !ok {
		data, err := json.Marshal(input)
		must(tb, err)
		arguments = string(data)
	}
	var seen []toolkit.Chunk
	result := router.Call(ctx, toolkit.Call{ID: "call", Name: name, Arguments: arguments}, func(c toolkit.Chunk) { seen = append(seen, c) })
	return result, seen
}

// get sends a request with the http tool and expects an answer.
func get(tb testing.TB, router *toolkit.Router, input any) httpOutput {
	tb.Helper()
	result := call(tb, router, "http", input)
	if result.Failed() {
		tb.Fatal(result.Error)
	}
	return parse[httpOutput](tb, result.Output)
}

func parse[T any](tb testing.TB, data []byte) T {
	tb.Helper()
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		tb.Fatalf("%v in %.300s", err, data)
	}
	return v
}

type object = map[string]any

// names is a name server for tests: the addresses of each name, answer by answer; the last
// one repeats.
type names struct {
	mu      sync.Mutex
	answers map[string][][]string
	asked   atomic.Int64
}

func (n *names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go n.answer(server)
		return client, nil
	}}
}

// answer speaks DNS over a stream: each message follows its length (RFC 1035, section
// 4.2.2).
func (n *names) answer(conn net.Conn) {
	defer conn.Close()
	for {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		data := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, data); err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(data) != nil || len(m.Questions) != 1 {
			return
		}
		n.fill(&m)
		packed, err := m.Pack()
		if err != nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...)); err != nil {
			return
		}
	}
}

func (n *names) fill(m *dnsmessage.Message) {
	question := m.Questions[0]
	m.Response, m.Authoritative, m.RecursionAvailable, m.Additionals = true, true, true, nil
	addresses, ok := n.next(strings.ToLower(strings.TrimSuffix(question.Name.String(), ".")), question.Type)
	if !ok {
		m.RCode = dnsmessage.RCodeNameError
		return
	}
	header := dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class} // TTL 0
	for _, text := range addresses {
		addr := netip.MustParseAddr(text)
		switch {
		case question.Type == dnsmessage.TypeA && addr.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
		case question.Type == dnsmessage.TypeAAAA && addr.Is6():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
}

// next advances with each question for IPv4 addresses; both kinds are asked each time.
func (n *names) next(name string, kind dnsmessage.Type) ([]string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	list, ok := n.answers[name]
	if !ok {
		return nil, false
	}
	n.asked.Add(1)
	if kind == dnsmessage.TypeA && len(list) > 1 {
		n.answers[name] = list[1:]
	}
	return list[0], true
}

func urlQuery(text string) string { return url.QueryEscape(text) }

func callOf(arguments string) toolkit.Call { return toolkit.Call{ID: "call", Arguments: arguments} }
