package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"voicebridge/bridge"
	"voicebridge/realtime"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/ws"
)

// checkCalls checks the settings of voice calls.
func (c *Config) checkCalls(w *checks) {
	r := c.Realtime
	if r.URL != "" {
		address, _, _ := strings.Cut(r.URL, "?") // such as Azure's ?api-version=…
		if isSocket(address) {
			address = "http" + strings.TrimPrefix(address, "ws")
		}
		if err := checkURL(address); err != nil {
			w.wrong("realtime.url", "%v", err)
		}
	}
	checkTurns(r.TurnDetection, w)
}

// pushToTalk is the type of turn detection that the API has no name for.
const pushToTalk = "none"

// checkTurns compares the turn detection with what the API takes of its type.
func checkTurns(t bridge.TurnDetection, w *checks) {
	const key = "realtime.turn_detection."
	types := realtime.SessionFields.At("audio.input.turn_detection").Cases
	if known := append(slices.Sorted(maps.Keys(types)), pushToTalk); !slices.Contains(known, t.Type) {
		w.wrong(key+"type", "%q is not one of %s", t.Type, strings.Join(known, ", "))
	}
	var set map[string]any
	raw, err := json.Marshal(t)
	if err = cmp.Or(err, json.Unmarshal(raw, &set)); err != nil {
		w.wrong(key+"threshold", "%v", err) // it is not finite
	}
	for kind, fields := range types {
		for name, f := range fields.Fields {
			value, ok := set[name]
			if ok && kind != t.Type {
				w.wrong(key+name, "it belongs to the type %s", kind)
			}
			if text, ok := value.(string); ok && !slices.Contains(f.Enum, text) {
				w.wrong(key+name, "%q is not one of %s", text, strings.Join(f.Enum, ", "))
			}
			if n, ok := value.(float64); ok && !(n >= f.Low && n <= f.High) {
				w.wrong(key+name, "%v is not between %v and %v", n, f.Low, f.High)
			}
		}
	}
}

// checkServing checks the settings of how others reach the server.
func (c *Config) checkServing(w *checks) {
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		w.wrong("tls.cert_file", "it and tls.key_file belong together")
	}
	if _, port, _ := net.SplitHostPort(c.Metrics.Listen); c.Metrics.Listen != "" && port != "0" && c.MetricsAddress() == c.Listen {
		w.wrong("metrics.listen", "the page and the API already use this address")
	}
	switch {
	case len(c.TURN.URLs) > 0 && !c.Secrets.TURNSecret.IsSet():
		w.wrong("turn.urls", "they need VOICEBRIDGE_TURN_SECRET")
	case len(c.TURN.URLs) == 0 && c.Secrets.TURNSecret.IsSet():
		w.wrong("turn.urls", "VOICEBRIDGE_TURN_SECRET is set, but there are no servers to use it with")
	}
}

// checkUpstreams checks what the tags do not say.
func (c *Config) checkUpstreams(w *checks) {
	for i := range c.Upstreams {
		u, key := &c.Upstreams[i], fmt.Sprintf("upstreams[%d].", i)
		if slices.ContainsFunc(c.Upstreams[:i], func(other Upstream) bool { return other.Name == u.Name }) {
			w.wrong(key+"name", "%q is the name of another", u.Name)
		}
		for name, rate := range map[string]int{"rate_in": u.RateIn, "rate_out": u.RateOut} {
			if rate != 0 && !slices.Contains(pcm.Rates, rate) {
				w.wrong(key+name, "%d is not one of %v", rate, pcm.Rates)
			}
		}
		if u.Live.On && u.Profile != UpstreamSimulator {
			w.wrong(key+"live.on", "it is for the profile simulator")
		}
		if u.IsLive() && u.By() != TransportWebRTC {
			w.wrong(key+"transport", "GPT-Live is served over webrtc")
		}
		if _, known := ws.Find(u.Profile); !known && u.Profile != UpstreamLiveName || u.BuiltIn() {
			continue // the first is reported by its tag
		}
		schemes := []string{"https", "http"}
		if u.By() == TransportWebSocket {
			schemes = []string{"wss", "ws", "https", "http"}
		}
		address, err := url.Parse(u.Address())
		switch {
		case u.Address() == "":
			w.wrong(key+"url", "an upstream of the profile %s needs it with the transport %s", u.Profile, u.By())
		case err != nil || address.Host == "" || !slices.Contains(schemes, address.Scheme):
			w.wrong(key+"url", "it must be an address of the form %s://host/path", schemes[0])
		}
	}
}
