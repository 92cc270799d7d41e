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
	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
)

// upstream is what calls talk to, with the simulator behind it when that is it.
type upstream struct {
	driver bridge.Upstream
	// note tells users what they should know of it; empty for a real model.
	note string
	sim  *simulator.Server
	ln   net.Listener
	log  *slog.Logger
	// running says that run was called, which ends the simulator.
	running bool
}

func openUpstream(ctx context.Context, cfg config.Config, api *rtc.API, log *slog.Logger) (*upstream, error) {
	if cfg.Driver() == config.UpstreamSimulator {
		return openSimulator(ctx, cfg, api, log)
	}
	key := cfg.VoiceKey()
	if u, err := url.Parse(cfg.CallsURL()); err == nil && u.Scheme == "http" && !config.IsLoopback(u.Hostname()) && key.IsSet() {
		log.Warn("the API key travels unencrypted", "host", u.Host)
	}
	if _, ok := cfg.Price(cfg.Realtime.Model); !ok {
		log.Warn("the cost of calls is not known: the model has no price", "model", cfg.Realtime.Model)
	}
	return &upstream{driver: bridge.NewRealtime(config.UpstreamOpenAI, api, realtimeClient(&cfg))}, nil
}

// realtimeClient creates calls where the settings say, and as they say.
func realtimeClient(cfg *config.Config) *realtime.Client {
	key := cfg.VoiceKey()
	return &realtime.Client{
		CallsURL: cfg.CallsURL(), APIKey: key.Reveal(), KeyHeader: cfg.Realtime.APIKeyHeader, JSON: cfg.Realtime.CallBody == "json",
	}
}

// openSimulator makes the built-in simulator, which listens on loopback and asks
// for a key that nobody else on this machine knows.
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

// run serves the simulator, if it is the upstream, until ctx ends.
func (u *upstream) run(ctx context.Context) error {
	if u.sim == nil {
		<-ctx.Done()
		return nil
	}
	return serveSimulator(ctx, u.sim, u.ln, u.log)
}

// needsLoopback reports whether the upstream is on this machine, so that media
// must be able to use loopback addresses.
func needsLoopback(cfg config.Config) bool {
	if cfg.Driver() == config.UpstreamSimulator {
		return true
	}
	u, err := url.Parse(cfg.CallsURL())
	return err == nil && config.IsLoopback(u.Hostname())
}

// close ends what was opened and never ran.
func (u *upstream) close() error {
	if u.sim == nil || u.running {
		return nil
	}
	return errors.Join(u.ln.Close(), u.sim.Run(ended()))
}
