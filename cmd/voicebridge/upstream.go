package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"

	"voicebridge/bridge"
	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/cmd/voicebridge/internal/telemetry"
	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
)

// upstream is what calls talk to, including the simulator if that is the upstream.
type upstream struct {
	driver bridge.Upstream
	// note tells users what to expect of it; empty for a real model.
	note string
	sim  *simulator.Server
	ln   net.Listener
	log  *slog.Logger
	// running is set once run was called, which ends the simulator.
	running bool
}

func openUpstream(ctx context.Context, cfg config.Config, api *rtc.API, traces *telemetry.Traces, log *slog.Logger) (*upstream, error) {
	if cfg.Driver() == config.UpstreamSimulator {
		return openSimulator(ctx, cfg, api, log)
	}
	key := cfg.VoiceKey()
	if u, err := url.Parse(cfg.CallsURL()); err == nil && u.Scheme == "http" && !config.IsLoopback(u.Hostname()) && key.IsSet() {
		log.Warn("the API key travels unencrypted", "host", u.Host)
	}
	if cfg.VoiceCost(realtime.Usage{}) == nil {
		log.Warn("the cost of calls is unknown: the model has no price per token", "model", cfg.Realtime.Model)
	}
	client := realtimeClient(&cfg)
	client.HTTP = traces.Client("voicebridge/" + buildVersion())
	return &upstream{driver: bridge.NewRealtime(config.UpstreamOpenAI, api, client)}, nil
}

// realtimeClient returns a client that creates calls as the settings say.
func realtimeClient(cfg *config.Config) *realtime.Client {
	key := cfg.VoiceKey()
	return &realtime.Client{
		CallsURL: cfg.CallsURL(), APIKey: key.Reveal(), KeyHeader: cfg.Realtime.APIKeyHeader, JSON: cfg.Realtime.CallBody == "json",
		DataChannel: dataChannel(cfg),
	}
}

// dataChannel returns the stream that the data channel to the upstream has from the start, zero if the upstream waits
// for its announcement: only OpenAI says that it does not ("WebRTC with WARP").
func dataChannel(cfg *config.Config) int {
	if u, err := url.Parse(cfg.CallsURL()); err == nil && cfg.Driver() == config.UpstreamOpenAI && u.Hostname() == "api.openai.com" {
		return 4 // as in OpenAI's example
	}
	return 0
}

// openSimulator makes the built-in simulator, which listens on loopback and requires a key that
// nobody else on this machine knows.
func openSimulator(ctx context.Context, cfg config.Config, api *rtc.API, log *slog.Logger) (*upstream, error) {
	key := rand.Text()
	sim, err := simulator.New(simulator.Config{APIKey: key, Models: []string{cfg.Realtime.Model}, Logger: log})
	if err != nil {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		_ = sim.Run(ended())
		return nil, fmt.Errorf("listen for the simulator: %w", err)
	}
	client := &realtime.Client{BaseURL: "http://" + ln.Addr().String() + "/v1", APIKey: key}
	u := &upstream{driver: bridge.NewRealtime(config.UpstreamSimulator, api, client), sim: sim, ln: ln, log: log}
	u.note = "No OPENAI_API_KEY is set: a simulator answers. It hears that you speak, not what you say."
	if cfg.Upstream == config.UpstreamSimulator {
		u.note = "A simulator answers, because VOICEBRIDGE_UPSTREAM says so. It hears that you speak, not what you say."
	}
	return u, nil
}

// run serves the simulator until ctx ends, if it is the upstream.
func (u *upstream) run(ctx context.Context) error {
	if u.sim == nil {
		<-ctx.Done()
		return nil
	}
	return serveSimulator(ctx, u.sim, u.ln, u.log)
}

// needsLoopback reports whether the upstream is on this machine, so that media needs loopback
// addresses.
func needsLoopback(cfg config.Config) bool {
	if cfg.Driver() == config.UpstreamSimulator {
		return true
	}
	u, err := url.Parse(cfg.CallsURL())
	return err == nil && config.IsLoopback(u.Hostname())
}

// close ends what was opened but never run.
func (u *upstream) close() error {
	if u.sim == nil || u.running {
		return nil
	}
	return errors.Join(u.ln.Close(), u.sim.Run(ended()))
}
