package telemetry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"voicebridge/toolkit/mcptool"
)

// Parts are asked for their figures when these are read. Each may be nil.
type Parts struct {
	// Spooled is how many changes of calls wait for the database.
	Spooled func() int
	// MCP is the state of the MCP servers.
	MCP func() []mcptool.Status
}

// Watch registers the figures of parts.
func Watch(registry prometheus.Registerer, parts Parts) error {
	if parts.Spooled == nil {
		parts.Spooled = func() int { return 0 }
	}
	if parts.MCP == nil {
		parts.MCP = func() []mcptool.Status { return nil }
	}
	return errors.Join(
		registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "voicebridge_spool_changes", Help: "Changes of calls that wait in a file for the database.",
		}, func() float64 { return float64(parts.Spooled()) })),
		registry.Register(servers(parts.MCP)),
	)
}

// servers collects the figures of MCP servers.
type servers func() []mcptool.Status

var (
	serverUp    = prometheus.NewDesc("voicebridge_mcp_server_up", "Whether the MCP server is connected.", []string{"server"}, nil)
	serverTools = prometheus.NewDesc("voicebridge_mcp_tools", "Tools that the MCP server offers.", []string{"server"}, nil)
	serverHeld  = prometheus.NewDesc("voicebridge_mcp_tools_held",
		"Tools of the MCP server that are not offered because they are new, or that ask the user because they have changed.", []string{"server"}, nil)
)

// Describe implements [prometheus.Collector].
func (servers) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{serverUp, serverTools, serverHeld} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (s servers) Collect(out chan<- prometheus.Metric) {
	for _, server := range s() {
		up := 0.0
		if server.Connected {
			up = 1
		}
		for d, value := range map[*prometheus.Desc]float64{serverUp: up, serverTools: float64(server.Tools), serverHeld: float64(len(server.Held))} {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, server.Name)
		}
	}
}
