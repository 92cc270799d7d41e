package telemetry

import (
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// Metrics are the metrics of calls, text turns, tools and the database. They are safe for
// concurrent use.
type Metrics struct {
	latency     *prometheus.HistogramVec
	failures    *prometheus.CounterVec
	toolCalls   *prometheus.CounterVec
	toolTime    *prometheus.HistogramVec
	tokens      *prometheus.CounterVec
	dollars     *prometheus.CounterVec
	unpriced    *prometheus.CounterVec
	commits     *prometheus.HistogramVec
	spoken      *prometheus.HistogramVec
	lost        prometheus.Counter
	queueWait   prometheus.Histogram
	queuePaused *prometheus.CounterVec

	models names
}

// The kinds of answers.
const (
	kindVoice = "voice"
	kindText  = "text"
)

// Outcomes of saving changes of calls, and of transactions.
const (
	savedInDatabase = "database"
	savedInFile     = "file"
	savedNowhere    = "lost"

	commitSaved = "saved"
	commitAway  = "away"
)

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer, version string) (*Metrics, error) {
	m := &Metrics{
		latency: histogram("voicebridge_answer_latency_seconds",
			"From the end of what the user says, or from a typed message, until a stage of the answer: commit, "+
				"response, first_audio and first_packet of voice; first_token and total of text.",
			[]float64{.025, .05, .1, .2, .3, .5, .75, 1, 1.5, 2, 3, 5, 10, 30}, "kind", "stage"),
		failures: counter("voicebridge_upstream_failures_total",
			"Failed requests to models, and calls that ended because of the model, by kind, upstream and reason.",
			"kind", "upstream", "reason"),
		toolCalls: counter("voicebridge_tool_calls_total",
			"Tool calls that ended, by who ran them, tool (of MCP servers: the server) and outcome.", "executor",
			"tool", "outcome"),
		toolTime: histogram("voicebridge_tool_call_duration_seconds", "How long tool calls took.",
			[]float64{.005, .02, .1, .5, 1, 2, 5, 10, 30, 60}, "executor", "tool"),
		tokens: counter("voicebridge_tokens_total",
			"Tokens as counted by the models, by kind and model; cached and audio tokens are also counted as input "+
				"or output.", "kind", "model", "type"),
		dollars: counter("voicebridge_cost_usd_total", "Cost of models in US dollars, according to the known prices.",
			"kind", "model"),
		unpriced: counter("voicebridge_unpriced_responses_total", "Responses whose cost is unknown.", "kind", "model"),
		commits: histogram("voicebridge_database_commit_duration_seconds",
			"Duration of write transactions, by outcome: saved, or away if the database did not accept them.",
			[]float64{.0005, .001, .002, .005, .01, .02, .05, .1, .5, 2, 10}, "outcome"),
		spoken: histogram("voicebridge_call_save_duration_seconds",
			"Time of each attempt to save what is said in a call, by where it is durable then: database, file, or "+
				"lost if neither accepted it; such an attempt is repeated.",
			[]float64{.001, .002, .005, .01, .02, .05, .1, .5, 2, 10}, "where"),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "voicebridge_call_changes_lost_total",
			Help: "Changes of calls that the database can never accept, such as a value that it refuses; the log " +
				"names each. Those of deleted threads do not count.",
		}),
		queueWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "voicebridge_queue_wait_seconds",
			Help:    "How long queued messages waited to be sent after they were due.",
			Buckets: []float64{.1, .5, 1, 5, 15, 60, 300, 1800},
		}),
		queuePaused: counter("voicebridge_queue_pauses_total", "Queues that were paused, by reason.", "reason"),
		models:      names{limit: 100},
	}
	// A counter that first appears with a failure would not be seen to grow.
	for _, where := range []string{savedInDatabase, savedInFile, savedNowhere} {
		m.spoken.WithLabelValues(where)
	}
	for _, outcome := range []string{commitSaved, commitAway} {
		m.commits.WithLabelValues(outcome)
	}
	about := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "voicebridge_build_info", Help: "Always 1; the label is the version of the program.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()},
	})
	about.Set(1)
	var errs []error
	for _, c := range []prometheus.Collector{
		m.latency, m.failures, m.toolCalls, m.toolTime, m.tokens, m.dollars, m.unpriced, m.commits, m.spoken, m.lost,
		m.queueWait, m.queuePaused, about,
	} {
		errs = append(errs, registry.Register(c))
	}
	return m, errors.Join(errs...)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// took records how long a stage of an answer took.
func (m *Metrics) took(kind, stage string, d time.Duration) {
	m.latency.WithLabelValues(kind, stage).Observe(d.Seconds())
}

// names bounds how many values a label has that clients can choose.
type names struct {
	limit int
	mu    sync.Mutex
	seen  map[string]bool
}

// of returns the name, or "other" if there are too many.
func (n *names) of(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.seen[name]:
		return name
	case len(n.seen) >= n.limit:
		return "other"
	case n.seen == nil:
		n.seen = map[string]bool{}
	}
	n.seen[name] = true
	return name
}

// reason bounds the values of a label: an upstream's codes are free text.
func reason(text string) string {
	switch text {
	case "auth", "quota", "rate", "too_long", "overloaded", "bad_request", "unavailable", "timeout", // of llm
		"server_error", "rate_limit_exceeded", "insufficient_quota", "invalid_request_error": // of the Realtime API
		return text
	default:
		return "other"
	}
}

// response counts a response and its cost.
func (m *Metrics) response(kind, upstream string, r records.Response) {
	model := m.models.of(r.Model)
	for name, n := range map[string]int64{
		"input": r.Usage.InputTokens, "output": r.Usage.OutputTokens, "cached": r.Usage.CachedTokens,
		"input_audio": r.Usage.InputAudioTokens, "output_audio": r.Usage.OutputAudioTokens,
	} {
		if n > 0 {
			m.tokens.WithLabelValues(kind, model, name).Add(float64(n))
		}
	}
	switch {
	case r.CostUSD != nil && *r.CostUSD >= 0:
		m.dollars.WithLabelValues(kind, model).Add(*r.CostUSD)
	case r.CostUSD == nil && r.Usage != thread.Usage{} && !freeOfCharge[upstream]:
		m.unpriced.WithLabelValues(kind, model).Inc()
	}
	if r.Status == "failed" {
		m.failures.WithLabelValues(kind, upstream, reason(r.StatusReason)).Inc()
	}
}

// freeOfCharge are the upstreams that run on this machine.
var freeOfCharge = map[string]bool{"simulator": true, "ollama": true}
