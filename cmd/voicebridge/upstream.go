package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"voicebridge/assistant"
	"voicebridge/bridge"
	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/llm"
	"voicebridge/llm/speech"
	"voicebridge/realtime"
	"voicebridge/realtime/live"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/served"
	"voicebridge/realtime/simulator"
	"voicebridge/realtime/vad"
	"voicebridge/realtime/ws"
)

// upstream is what calls talk to, including the simulator if that is the upstream.
type upstream struct {
	routes []bridge.Route
	// speakers speak in cascades, by the names of their upstreams.
	speakers map[string]*speech.Speaker
	// note tells users what to expect of it; empty for a real model.
	note string
	sim  *simulator.Server
	key  string // of the simulator
	ln   net.Listener
	log  *slog.Logger
	// running is set once run was called, which ends the simulator.
	running bool
}

// agent is the default transport with this program's name as the User-Agent.
type agent struct{}

func (agent) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", "voicebridge/"+buildVersion())
	return http.DefaultTransport.RoundTrip(r)
}

// realtimeClient returns a client that creates calls of an upstream.
func realtimeClient(cfg *config.Config, u *config.Upstream) *realtime.Client {
	return &realtime.Client{
		CallsURL: u.Address(), APIKey: u.Key.Reveal(), KeyHeader: u.Settled().KeyHeader, DataChannel: dataChannel(cfg),
		JSON: u.Unlisted && cfg.Realtime.CallBody == "json", Timeout: cfg.Calls.Setup,
		HTTP: &http.Client{Transport: agent{}},
	}
}

// dataChannel returns the stream that the data channel to the upstream has from the start, zero if the upstream waits
// for its announcement: only OpenAI says that it does not ("WebRTC with WARP").
func dataChannel(cfg *config.Config) int {
	for i := range cfg.Upstreams { // all have the same kind of peer
		u := &cfg.Upstreams[i]
		at, err := url.Parse(u.Address())
		other := err != nil || at.Hostname() != "api.openai.com"
		if u.IsLive() || u.By() == config.TransportWebRTC && other {
			return 0 // it waits
		}
	}
	return 4 // as in OpenAI's example
}

// openSimulator makes the built-in simulator, which listens on loopback and requires a key that
// nobody else on this machine knows.
func openSimulator(ctx context.Context, cfg config.Config, log *slog.Logger) (*upstream, error) {
	key := rand.Text()
	models := []string{cfg.Realtime.Model}
	for _, u := range cfg.Upstreams {
		models = append(models, u.Model)
	}
	sim, err := simulator.New(simulator.Config{APIKey: key, Models: models, Logger: log})
	if err != nil {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		_ = sim.Run(ended())
		return nil, fmt.Errorf("listen for the simulator: %w", err)
	}
	u := &upstream{sim: sim, key: key, ln: ln, log: log}
	u.note = "No OPENAI_API_KEY is set: a simulator answers. It hears that you speak, not what you say."
	if cfg.Upstream != "" || !cfg.Upstreams[0].Unlisted {
		u.note = "A simulator answers, because VOICEBRIDGE_UPSTREAM says so. It hears that you speak, not what you say."
	}
	return u, nil
}

// simulated returns a driver for the built-in simulator.
func (u *upstream) simulated(name, transport string, api *rtc.API, model string) bridge.Upstream {
	base := "http://" + u.ln.Addr().String() + "/v1"
	if transport == config.TransportWebSocket {
		profile, _ := ws.Find("realtime")
		return bridge.NewWebSocket(name, &ws.Client{
			Profile: profile, URL: base + "/realtime", APIKey: u.key, Model: model, Log: u.log,
		})
	}
	return bridge.NewRealtime(name, api, &realtime.Client{BaseURL: base, APIKey: u.key})
}

// unencrypted returns the host of an address on another machine to which requests travel unencrypted, else nothing.
func unencrypted(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "ws" || config.IsLoopback(u.Hostname()) {
		return ""
	}
	return u.Host
}

// openUpstream makes the drivers of the upstreams.
func openUpstream(
	ctx context.Context, cfg config.Config, api *rtc.API, ask asking, log *slog.Logger,
) (*upstream, error) {
	all := &upstream{log: log}
	if slices.ContainsFunc(cfg.Upstreams, func(u config.Upstream) bool { return u.BuiltIn() }) {
		var err error
		if all, err = openSimulator(ctx, cfg, log); err != nil {
			return nil, err
		}
	}
	all.speakers = map[string]*speech.Speaker{}
	for _, u := range cfg.Upstreams {
		if u.IsCascade() {
			route, speaker, err := openCascade(&u, ask, log)
			if err != nil {
				return nil, errors.Join(err, all.close())
			}
			all.routes, all.speakers[u.Name] = append(all.routes, route), speaker
			continue
		}
		model := cmp.Or(u.Model, cfg.Realtime.Model)
		least := realtime.Usage{Type: "duration", Seconds: 1, InputTokens: 1}
		priced := cfg.VoiceCost(u.Name, model, least) != nil
		if u.IsLive() && !priced {
			priced = cfg.TranscriptionCost(u.Name, model, least) != nil
		}
		if !priced {
			log.Warn("the cost of calls is unknown: the model has no price", "model", model, "upstream", u.Name)
		}
		if host := unencrypted(u.Address()); host != "" && u.Key.IsSet() {
			log.Warn("the API key travels unencrypted", "host", host, "upstream", u.Name)
		}
		route := bridge.Route{Model: u.Model, Voice: u.Voice, TranscriptionModel: u.TranscriptionModel}
		switch {
		case u.IsLive():
			client := liveClient(&cfg, &u)
			client.Log = log.With("upstream", u.Name)
			client.HTTP = &http.Client{Transport: agent{}}
			route.Upstream = bridge.NewLive(u.Name, api, client)
		case u.BuiltIn():
			route.Upstream = all.simulated(u.Name, u.By(), api, model)
		case u.By() == config.TransportWebSocket:
			client := u.Client(cfg.Realtime.Model)
			client.Log = log.With("upstream", u.Name)
			client.Header.Set("User-Agent", "voicebridge/"+buildVersion())
			route.Upstream = bridge.NewWebSocket(u.Name, client)
		default:
			route.Upstream = bridge.NewRealtime(u.Name, api, realtimeClient(&cfg, &u))
		}
		all.routes = append(all.routes, route)
	}
	return all, nil
}

// liveClient returns a client of GPT-Live as the settings say.
func liveClient(cfg *config.Config, u *config.Upstream) *live.Client {
	return &live.Client{URL: u.Address(), APIKey: u.Key.Reveal(), Rounds: cfg.Calls.ToolRounds}
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
	local := func(u config.Upstream) bool {
		at, err := url.Parse(u.Address())
		return u.BuiltIn() || err == nil && config.IsLoopback(at.Hostname())
	}
	return slices.ContainsFunc(cfg.Upstreams, local)
}

// close ends what was opened but never run.
func (u *upstream) close() error {
	if u.sim == nil || u.running {
		return nil
	}
	return errors.Join(u.ln.Close(), u.sim.Run(ended()))
}

// asking returns how a text model is asked: that of the settings, but for what these say, of which the last counts.
type asking func(...assistant.Text) llm.Ask

// openCascade makes the driver of a cascade.
func openCascade(u *config.Upstream, ask asking, log *slog.Logger) (bridge.Route, *speech.Speaker, error) {
	c := u.Cascade
	stt, tts, err := u.Speech(&http.Client{Transport: agent{}})
	if err != nil {
		return bridge.Route{}, nil, fmt.Errorf("upstream %s: %w", u.Name, err)
	}
	for _, s := range []struct{ url, key string }{{c.STT.URL, c.STT.APIKeyEnv}, {c.TTS.URL, c.TTS.APIKeyEnv}} {
		if host := unencrypted(s.url); host != "" && s.key != "" {
			log.Warn("the API key travels unencrypted", "host", host, "upstream", u.Name)
		}
	}
	detector := func() served.Turns { return vad.New() }
	if c.Turns.VAD == "energy" {
		detector = func() served.Turns { return new(served.Energy) }
	}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	fixed := assistant.Text{Provider: c.Text.Provider, Model: cmp.Or(u.Model, c.Text.Model)}
	driver := bridge.NewCascade(bridge.CascadeConfig{
		Name: u.Name, STT: stt, Language: c.STT.Language, Prompt: c.STT.Prompt, TTS: tts, SpeechModel: c.TTS.Model,
		Speed: c.TTS.Speed, Ask: func(own assistant.Text) llm.Ask { return ask(own, fixed) }, VAD: detector,
		Turning: served.Turning{
			MinPause: ms(c.Turns.MinPause), MaxPause: ms(c.Turns.MaxPause), MinSpeech: ms(c.Turns.MinSpeech),
		},
		Logger: log.With("upstream", u.Name),
	})
	return bridge.Route{
		Upstream: driver, Own: true, Model: ask(fixed).Request.Model, Voice: cmp.Or(u.Voice, c.TTS.Voice),
		TranscriptionModel: cmp.Or(u.TranscriptionModel, c.STT.Model),
	}, tts, nil
}
