package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/cmd/voicebridge/internal/telemetry"
)

// lastTraces is how long a stopping process waits for its last traces to be sent.
const lastTraces = 3 * time.Second

// openTelemetry makes metrics and traces.
func (a *app) openTelemetry(ctx context.Context) error {
	metrics, err := telemetry.NewMetrics(a.metrics.Registry(), buildVersion())
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if t := a.cfg.Traces; t.Endpoint != "" {
		t.Headers, t.Version, t.Instance, t.Logger = map[string]string{}, buildVersion(), a.instance, a.log
		for name, value := range a.cfg.Secrets.TraceHeaders {
			t.Headers[name] = value.Reveal()
		}
		a.traces, err = telemetry.OpenTraces(ctx, t)
		if err != nil {
			return err
		}
		a.onClose(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), lastTraces)
			defer cancel()
			if err := a.traces.Close(ctx); err != nil {
				a.log.Warn("the last traces were not sent", "error", err)
			}
			return nil
		})
		a.log.Info("the set-up of calls is traced", "endpoint", t.Endpoint, "sample", t.Sample)
	}
	a.observer = telemetry.NewObserver(metrics, a.traces, a.cfg.Driver())
	return nil
}

// watchParts adds the metrics that are computed when read, and opens the operators' port.
func (a *app) watchParts(ctx context.Context) (err error) {
	parts := telemetry.Parts{
		Spooled: a.spool.Pending, Queued: a.store.Queued.Count,
		Certificates: func() map[string]time.Time { return a.certificate.Ends() }, MCP: a.tools.mcp.Status,
	}
	if err := telemetry.Watch(a.metrics.Registry(), parts); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	address := a.cfg.MetricsAddress()
	if address == "" {
		return nil
	}
	if a.operators, err = new(net.ListenConfig).Listen(ctx, "tcp", address); err != nil {
		return fmt.Errorf("%w (choose another address with metrics.listen or VOICEBRIDGE_METRICS_LISTEN)", err)
	}
	a.onClose(func() error { _ = a.operators.Close(); return nil }) // if it was never served
	a.log.Info("metrics and profiles", "address", a.operators.Addr().String())
	if host, _, err := net.SplitHostPort(address); err == nil && !config.IsLoopback(host) {
		a.log.Warn("metrics and profiles require no token and other machines can reach them: use a firewall",
			"address", address)
	}
	return nil
}

// serveOperators serves the operators' port, if there is one, until ctx ends.
func (a *app) serveOperators(ctx context.Context) error {
	if a.operators == nil {
		<-ctx.Done()
		return nil
	}
	return telemetry.Serve(ctx, a.operators, a.metrics.Handler(), a.log)
}
