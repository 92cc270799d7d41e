package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

// model is a language model of OpenAI's kind that answers each message with its own words,
// and counts the requests.
type model struct {
	*httptest.Server
	// wait is called with the user's words before the answer; nil does not wait.
	wait func(words string)

	mu      sync.Mutex
	asked   map[string]int  // how often, by words
	running map[string]bool // being answered right now
	twice   []string        // asked while another turn of the thread was running
	total   int
	changed chan struct{} // closed and replaced with each request
}

func newModel(t *testing.T, wait func(string)) *model {
	t.Helper()
	m := &model{wait: wait, asked: map[string]int{}, running: map[string]bool{}, changed: make(chan struct{})}
	m.Server = httptest.NewServer(http.HandlerFunc(m.answer))
	t.Cleanup(m.Close)
	return m
}

// environ makes it the text provider.
func (m *model) environ() []string {
	return []string{
		"OPENAI_BASE_URL=" + m.URL + "/v1", "OPENAI_API_KEY=key-of-the-tests", "VOICEBRIDGE_UPSTREAM=simulator",
		"VOICEBRIDGE_TEXT_PROVIDER=openai",
	}
}

func (m *model) answer(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || len(req.Messages) == 0 {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	words := req.Messages[len(req.Messages)-1].Content
	if _, after, ok := strings.Cut(words, "]\n\n"); ok && strings.HasPrefix(words, "[CONTEXT:") {
		words = after
	}
	defer m.enter(words)()
	if m.wait != nil {
		m.wait(words)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, delta := range []string{fmt.Sprintf(`{"role":"assistant","content":%q},"finish_reason":null`, "re "+words), `{},"finish_reason":"stop"`} {
		fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", delta)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// enter records a request. The first word names its thread, but for requests of titles, which are beside turns.
func (m *model) enter(words string) (leave func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	thread, _, _ := strings.Cut(words, " ")
	for other := range m.running {
		if thread != "user:" && strings.HasPrefix(other, thread+" ") {
			m.twice = append(m.twice, words+" beside "+other)
		}
	}
	m.running[words] = true
	m.asked[words]++
	m.total++
	close(m.changed)
	m.changed = make(chan struct{})
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.running, words)
	}
}

// until waits until the model was asked that often in total.
func (m *model) until(t *testing.T, total int) {
	t.Helper()
	out, stop := testkit.Limit()
	defer stop()
	for {
		m.mu.Lock()
		now, changed := m.total, m.changed
		m.mu.Unlock()
		if now >= total {
			return
		}
		select {
		case <-changed:
		case <-out:
			t.Fatalf("the model was asked %d times, want %d", now, total)
		}
	}
}

func (m *model) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total
}

// forget drops the requests of a server that was killed.
func (m *model) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.running)
}

const queueSettings = "limits:\n  setups_per_minute_per_ip: 100000\n" +
	"conversations:\n  auto_generate_titles: false\n  queue: {max_size: 0, auto_generate_titles: false}\n"

// TestQueueKilled kills the program repeatedly while it delivers messages.
func TestQueueKilled(t *testing.T) {
	t.Parallel()
	killQueue(t, 4, 10, 8)
}

// killQueue kills the program each time that it has delivered so many messages, or up to twice as many, until all are
// delivered. Each message is in its thread once, in order and with an answer; for each kill, at most one on each thread
// was asked twice.
func killQueue(t *testing.T, threads, each, delivered int) {
	t.Helper()
	for engine, newURL := range persistencetest.URLs {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, nil)
			database := newURL(t)
			environ := append(m.environ(), "DATABASE_URL="+database, "VOICEBRIDGE_LISTEN=127.0.0.1:0", "VOICEBRIDGE_CONFIG="+write(t, queueSettings))
			// At first nothing is sent, so that all messages wait when the deliveries begin.
			still := strings.Replace(queueSettings, "{max_size", "{enabled: false, max_size", 1)
			p := launch(t, append(slices.Clone(environ), "VOICEBRIDGE_CONFIG="+write(t, still)))
			var ids []string
			for range threads {
				ids = append(ids, newThread(t, p.url))
			}
			for n := range each {
				for i, id := range ids {
					body := fmt.Sprintf(`{"message":"t%d m%03d","idempotency_key":"k%d"}`, i, n, n)
					p.postJSON(t, "/api/threads/"+id+"/queue", body, http.StatusCreated, nil)
				}
			}
			if code := p.terminate(); code != 0 {
				t.Fatalf("exit code %d", code)
			}
			random := rand.New(rand.NewPCG(1, 2))
			kills := 0
			for m.count() < threads*each {
				p = launch(t, environ)
				m.until(t, min(m.count()+delivered+random.IntN(delivered), threads*each))
				p.kill()
				m.forget()
				kills++
			}
			launch(t, environ)
			untilSent(t, database)
			wantDelivered(t, database, ids, each)
			m.mu.Lock()
			defer m.mu.Unlock()
			if again := m.total - threads*each; again > kills*threads || len(m.twice) > 0 {
				t.Errorf("%d requests were repeated after %d kills; at the same time: %q", again, kills, m.twice)
			}
			t.Logf("%d kills, %d requests repeated", kills, m.total-threads*each)
		})
	}
}

// untilSent waits until no message is waiting, and otherwise reports what is.
func untilSent(t *testing.T, database string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			for _, query := range []string{
				"SELECT thread_id, id, message, state, attempts, not_before, error, instance FROM queued_messages WHERE state <> 'sent' LIMIT 20",
				"SELECT thread_id, instance, started_at, ended_at FROM turns", "SELECT * FROM queue_pauses",
			} {
				t.Logf("%s\n%q", query, persistencetest.Rows(t, database, query))
			}
		}
	}()
	testkit.Eventually(t, "all are sent", func() bool {
		return persistencetest.Rows(t, database, "SELECT count(*) FROM queued_messages WHERE state <> 'sent'")[0][0] == "0"
	})
}

// wantDelivered checks the threads: every message once, in order, and after each its
// answer, possibly after the beginnings of other answers.
func wantDelivered(t *testing.T, database string, threads []string, each int) {
	t.Helper()
	for i, id := range threads {
		rows := persistencetest.Rows(t, database, "SELECT role, status, text FROM messages WHERE thread_id = '"+id+"' ORDER BY seq")
		var got []string
		for _, r := range rows {
			if role, status := r[0], r[1]; role == "user" || status == "completed" {
				got = append(got, r[2])
			} else if status != "interrupted" {
				t.Errorf("thread %d has a message that is %v", i, r)
			}
		}
		var want []string
		for n := range each {
			words := fmt.Sprintf("t%d m%03d", i, n)
			want = append(want, words, "re "+words)
		}
		testkit.Equal(t, got, want, "thread %d", i)
	}
}
