package telemetry

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"voicebridge/toolkit/mcptool"
)

// Parts are asked for their state when metrics are read.
type Parts struct {
	// Spooled returns how many changes of calls wait for the database.
	Spooled func() int
	// Queued returns how many messages wait in the whole database, for all owners.
	Queued func(context.Context) (int64, error)
	// MCP returns the state of the MCP servers.
	MCP func() []mcptool.Status
	// Certificates returns when the TLS certificates expire, by domain.
	Certificates func() map[string]time.Time
}

// Watch registers the metrics of parts.
func Watch(registry prometheus.Registerer, parts Parts) error {
	return errors.Join(
		registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "voicebridge_spool_changes", Help: "Changes of calls waiting in a file for the database.",
		}, func() float64 { return float64(parts.Spooled()) })),
		registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "voicebridge_queue_waiting",
			Help: "Queued messages not yet sent, for all owners; the same in every process of a database.",
		}, func() float64 { return count(parts.Queued) })),
		registry.Register(servers(parts.MCP)),
		registry.Register(certificates(parts.Certificates)),
	)
}

// countTimeout is how long the database may take to count.
const countTimeout = 2 * time.Second

// count asks for a number, which is unknown while the database is unavailable.
func count(of func(context.Context) (int64, error)) float64 {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	n, err := of(ctx)
	if err != nil {
		return math.NaN()
	}
	return float64(n)
}

// servers collects the metrics of MCP servers.
type servers func() []mcptool.Status

var (
	serverUp = prometheus.NewDesc("voicebridge_mcp_server_up", "Whether the MCP server is connected.",
		[]string{"server"}, nil)
	serverTools = prometheus.NewDesc("voicebridge_mcp_tools", "Tools that the MCP server offers.", []string{"server"},
		nil)
	serverHeld = prometheus.NewDesc("voicebridge_mcp_tools_held",
		"Tools of the MCP server that are not offered because they are new, or that need approval because they "+
			"have changed.", []string{"server"}, nil)
)

func (servers) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{serverUp, serverTools, serverHeld} {
		out <- d
	}
}

func (s servers) Collect(out chan<- prometheus.Metric) {
	for _, server := range s() {
		up := 0.0
		if server.Connected {
			up = 1
		}
		for d, value := range map[*prometheus.Desc]float64{
			serverUp: up, serverTools: float64(server.Tools), serverHeld: float64(len(server.Held)),
		} {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, server.Name)
		}
	}
}

// certificates collects when TLS certificates expire.
type certificates func() map[string]time.Time

var certificateEnd = prometheus.NewDesc("voicebridge_certificate_not_after_seconds",
	"When the TLS certificate expires, in seconds since 1970, by domain.", []string{"domain"}, nil)

func (certificates) Describe(out chan<- *prometheus.Desc) { out <- certificateEnd }

func (c certificates) Collect(out chan<- prometheus.Metric) {
	for domain, end := range c() {
		out <- prometheus.MustNewConstMetric(certificateEnd, prometheus.GaugeValue, float64(end.Unix()), domain)
	}
}
