package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

// cluster is a rig of several processes on one PostgreSQL, behind a proxy that gives each
// request to the next process.
type cluster struct {
	*rig
	nodes  []*node
	cookie string // of the page session, added to the harness's requests

	mu     sync.Mutex
	turn   int
	pinned int // the node that gets every request; negative for none
}

// node is one process of a cluster.
type node struct {
	*program
	path *persistencetest.Path
	dir  string // in which it runs, with its spool
}

const (
	clusterToken = "a-token-of-sixteen-and-more"
	// readyWithin is how long a process may take until it accepts work.
	readyWithin = 2 * time.Second
)

// newCluster starts n processes and signs in on one of them.
func newCluster(t *testing.T, n int, cfg rigConfig) *cluster {
	t.Helper()
	cfg.environ = append([]string{"VOICEBRIDGE_API_TOKENS=ada:" + clusterToken}, cfg.environ...)
	c := &cluster{rig: prepareRig(t, cfg), pinned: -1}
	for i := range n {
		c.nodes = append(c.nodes, &node{path: persistencetest.NewPath(t, c.database), dir: t.TempDir()})
		c.launch(i)
	}
	front := httptest.NewServer(c)
	t.Cleanup(front.Close)
	c.program = &program{t: t, url: front.URL}
	c.signIn()
	return c
}

// launch starts a process, or starts it again.
func (c *cluster) launch(i int) {
	c.t.Helper()
	c.nodes[i].program = launchIn(c.t, c.nodes[i].dir, append(slices.Clone(c.environ), "DATABASE_URL="+c.nodes[i].path.URL), "serve")
}

// signIn gets the cookie from any process.
func (c *cluster) signIn() {
	c.t.Helper()
	res, err := unpooled.Post(c.url+"/api/session", "application/json", strings.NewReader(`{"token":"`+clusterToken+`"}`))
	must(c.t, err)
	_ = res.Body.Close()
	if len(res.Cookies()) == 0 {
		c.t.Fatalf("no page session: %s", res.Status)
	}
	c.cookie = res.Cookies()[0].String()
	c.cookie, _, _ = strings.Cut(c.cookie, ";")
}

// at sends every request to one process, until at is called again; a negative number ends
// that.
func (c *cluster) at(i int) *cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pinned = i
	return c
}

// next returns the process that gets a request: the next one that accepts work. On a busy
// machine none may say so in time; then all are asked again.
func (c *cluster) next() *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pinned >= 0 {
		return c.nodes[c.pinned]
	}
	again := time.NewTicker(50 * time.Millisecond) // refusals come at once, and would take the time that the processes need
	defer again.Stop()
	out, stop := testkit.Limit()
	defer stop()
	for {
		for range c.nodes {
			c.turn = (c.turn + 1) % len(c.nodes)
			if n := c.nodes[c.turn]; n.ready() {
				return n
			}
		}
		select {
		case <-again.C:
		case <-out:
			return nil
		}
	}
}

func (n *node) ready() bool {
	asking := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: readyWithin}
	res, err := asking.Get(n.url + "/readyz")
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// ServeHTTP passes a request or a WebSocket on to a process. A request that only reads
// gets a second try if its process ends just then.
func (c *cluster) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	c.pass(w, q, q.Method == http.MethodGet)
}

func (c *cluster) pass(w http.ResponseWriter, q *http.Request, again bool) {
	n := c.next()
	if n == nil {
		http.Error(w, "no process accepts work", http.StatusServiceUnavailable)
		return
	}
	to, err := url.Parse(n.url)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	proxy := httputil.ReverseProxy{Transport: unpooled.Transport, Rewrite: func(pr *httputil.ProxyRequest) {
		pr.SetURL(to)
		pr.Out.Host = pr.In.Host // the origin of a page is that of the proxy
		if c.cookie != "" && pr.In.Header.Get("Cookie") == "" {
			pr.Out.Header.Set("Cookie", c.cookie)
		}
	}, ErrorHandler: func(w http.ResponseWriter, q *http.Request, err error) {
		if again {
			c.pass(w, q, false)
			return
		}
		http.Error(w, err.Error(), http.StatusBadGateway)
	}}
	proxy.ServeHTTP(w, q)
}

// home returns the process that has a call.
func (c *cluster) home(of *caller) int { return c.homeOf("c.id = '" + of.id + "'") }

// homeOf returns the process that has the only call of which a condition is true.
func (c *cluster) homeOf(condition string) int {
	c.t.Helper()
	rows := c.rows(c.t, "SELECT i.process FROM calls AS c JOIN instances AS i ON i.id = c.instance WHERE "+condition)
	for i, n := range c.nodes {
		if len(rows) == 1 && strings.HasPrefix(rows[0], fmt.Sprint(n.cmd.Process.Pid, " ")) {
			return i
		}
	}
	c.t.Fatalf("no process has the call: %q", rows)
	return 0
}
