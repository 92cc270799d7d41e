package config

import (
	"net"
	"strings"
)

// checkCalls checks the settings of voice calls.
func (c *Config) checkCalls(w *checks) {
	r := c.Realtime
	if r.URL != "" {
		address, _, _ := strings.Cut(r.URL, "?") // such as Azure's ?api-version=…
		if err := checkURL(address); err != nil {
			w.wrong("realtime.url", "%v", err)
		}
	}
	r.TurnDetection.check(w)
}

func (t TurnDetection) check(w *checks) {
	const key = "realtime.turn_detection."
	w.oneOf(key+"type", t.Type, serverVAD, semanticVAD, pushToTalk)
	for name, field := range map[string]struct {
		set  bool
		only string
	}{
		"threshold": {t.Threshold != nil, serverVAD}, "prefix_padding_ms": {t.PrefixPaddingMS != nil, serverVAD},
		"silence_duration_ms": {t.SilenceDurationMS != nil, serverVAD}, "idle_timeout_ms": {t.IdleTimeoutMS != nil, serverVAD},
		"eagerness": {t.Eagerness != "", semanticVAD},
	} {
		if field.set && t.Type != field.only {
			w.wrong(key+name, "it belongs to the type %s", field.only)
		}
	}
	w.oneOf(key+"eagerness", t.Eagerness, "", "low", "medium", "high", "auto")
	if t.Threshold != nil {
		w.number(key+"threshold", *t.Threshold, 1)
	}
	for name, field := range map[string]struct {
		value     *int
		low, high int
	}{
		"prefix_padding_ms": {t.PrefixPaddingMS, 0, 10_000}, "silence_duration_ms": {t.SilenceDurationMS, 0, 30_000},
		"idle_timeout_ms": {t.IdleTimeoutMS, 5000, 30_000},
	} {
		if field.value != nil {
			w.between(key+name, *field.value, field.low, field.high)
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
