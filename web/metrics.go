package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"voicebridge/bridge"
	"voicebridge/chat"
	"voicebridge/hooks"
	"voicebridge/persistence"
	"voicebridge/web/access"
	"voicebridge/web/socket"
)

// Metrics are the process's Prometheus metrics. Those of the bridge are reported by whoever wires
// both. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	callsStarted  prometheus.Counter
	callsRefused  *prometheus.CounterVec
	callsEnded    *prometheus.CounterVec
	callEvents    *prometheus.CounterVec
	draftsDropped prometheus.Counter
	requests      *prometheus.CounterVec
	durations     *prometheus.HistogramVec
	socketsClosed *prometheus.CounterVec
	turns         *prometheus.CounterVec
	hookAttempts  *prometheus.CounterVec
	hookDurations prometheus.Histogram
}

// NewMetrics returns metrics with their own registry.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		callsStarted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "voicebridge_calls_started_total", Help: "Calls that were set up.",
		}),
		callsRefused: counter("voicebridge_calls_refused_total", "Calls that were not set up, by error code.", "code"),
		callsEnded:   counter("voicebridge_calls_ended_total", "Calls that ended, by reason.", "reason"),
		callEvents: counter("voicebridge_call_events_total",
			"What happened to live calls: renewals of the upstream, by event.", "event"),
		draftsDropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "voicebridge_drafts_dropped_total",
			Help: "Draft events that were dropped because a browser was slow.",
		}),
		requests: counter("voicebridge_http_requests_total", "HTTP requests, by route, method and status.",
			"route", "method", "status"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "voicebridge_http_request_duration_seconds",
			Help:    "Time to answer HTTP requests other than WebSockets, by route.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10},
		}, []string{"route"}),
		socketsClosed: counter("voicebridge_sockets_closed_total", "WebSockets that were closed, by reason.", "reason"),
		turns: counter("voicebridge_text_turns_total", "Text turns that ended, by provider and reason.",
			"provider", "reason"),
		hookAttempts: counter("voicebridge_hook_attempts_total",
			"Attempts to deliver an event to a hook, by result: delivered, retried, failed, gone or lost.", "result"),
		hookDurations: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "voicebridge_hook_attempt_duration_seconds",
			Help:    "Time that the receivers of hooks took to answer, or did not.",
			Buckets: []float64{.02, .1, .5, 2, 10},
		}),
	}
	m.registry.MustRegister(
		m.callsStarted, m.callsRefused, m.callsEnded, m.callEvents, m.draftsDropped, m.requests, m.durations,
		m.socketsClosed, m.turns, m.hookAttempts, m.hookDurations,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, event := range bridge.Counters { // one that first appears with a failure would not be seen to grow
		m.callEvents.WithLabelValues(string(event))
	}
	for _, result := range hooks.Results {
		m.hookAttempts.WithLabelValues(string(result))
	}
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// CallEnded counts an ended call. The reasons are the bridge's, a closed list.
func (m *Metrics) CallEnded(reason string) { m.callsEnded.WithLabelValues(reason).Inc() }

// CallEvent counts an event of a live call. The events are the bridge's, a closed list.
func (m *Metrics) CallEvent(event string) { m.callEvents.WithLabelValues(event).Inc() }

// DraftsDropped counts draft events that a slow browser did not get.
func (m *Metrics) DraftsDropped(n int) { m.draftsDropped.Add(float64(n)) }

// HookAttempt counts an attempt to deliver an event to a hook.
func (m *Metrics) HookAttempt(result hooks.Result, took time.Duration) {
	m.hookAttempts.WithLabelValues(string(result)).Inc()
	m.hookDurations.Observe(took.Seconds())
}

// TurnFinished implements chat.TurnObserver: it counts ended text turns. Providers and reasons are
// closed lists.
func (m *Metrics) TurnFinished(_ context.Context, report chat.TurnReport) {
	m.turns.WithLabelValues(report.Result.Provider, string(report.Result.Finish)).Inc()
}

// watch adds the metrics that are computed when read.
func (m *Metrics) watch(calls, texts, sockets interface{ Count() int }, events interface{ Dropped() int64 }) error {
	gauge := func(name, help string, of interface{ Count() int }) error {
		return m.registry.Register(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(of.Count()) }))
	}
	return errors.Join(
		m.registry.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "voicebridge_thread_events_dropped_total",
			Help: "Draft events of threads that a slow watcher did not get.",
		}, func() float64 { return float64(events.Dropped()) })),
		gauge("voicebridge_calls_live", "Live calls.", calls),
		gauge("voicebridge_text_turns_live", "Text turns in progress.", texts),
		gauge("voicebridge_sockets_live", "Open WebSockets.", sockets),
	)
}

// Registry is where other parts of the process add their metrics.
func (m *Metrics) Registry() prometheus.Registerer { return m.registry }

// Handler serves all metrics, with the ids of traces for clients that ask for OpenMetrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(m.gather), promhttp.HandlerOpts{
		DisableCompression: true, EnableOpenMetrics: true,
	})
}

// gather returns all metrics. In OpenMetrics the family of the counter go_memstats_alloc_bytes_total would be called
// go_memstats_alloc_bytes, as a gauge is, for which strict readers refuse everything: its type is left out.
func (m *Metrics) gather() ([]*dto.MetricFamily, error) {
	families, err := m.registry.Gather()
	for _, f := range families {
		if f.GetName() == "go_memstats_alloc_bytes_total" {
			f.Type = dto.MetricType_UNTYPED.Enum()
			for _, each := range f.GetMetric() {
				each.Untyped, each.Counter = &dto.Untyped{Value: each.GetCounter().Value}, nil
			}
		}
	}
	return families, err
}

func (m *Metrics) request(route, method string, status int) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete, http.MethodOptions:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
}

// refused counts only our own codes: an upstream's code is free text.
func (m *Metrics) refused(err error) {
	e := classify(err)
	code := e.Code
	if e.Status == http.StatusBadGateway {
		code = "upstream"
	}
	m.callsRefused.WithLabelValues(code).Inc()
}

func (m *Metrics) socketClosed(cause error) {
	reason := "error"
	switch {
	case errors.Is(cause, socket.ErrShutdown), errors.Is(cause, persistence.ErrClosed):
		reason = "shutdown"
	case errors.Is(cause, access.ErrEnded):
		reason = "signed_out"
	case errors.Is(cause, socket.ErrSlow):
		reason = "slow"
	case errors.Is(cause, persistence.ErrMissed):
		reason = "missed"
	case errors.Is(cause, socket.ErrTaken):
		reason = "taken_over"
	case errors.Is(cause, socket.ErrGone):
		reason = "client"
	case errors.Is(cause, persistence.ErrNotFound):
		reason = "deleted"
	}
	m.socketsClosed.WithLabelValues(reason).Inc()
}
