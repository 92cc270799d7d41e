package config

import (
	"net"
	"regexp"
	"strings"
)

var languageCode = regexp.MustCompile(`^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)

// checkCalls checks the settings of voice calls.
func (c *Config) checkCalls(w *checks) {
	r := c.Realtime
	if r.URL != "" {
		address, _, _ := strings.Cut(r.URL, "?") // such as Azure's ?api-version=…
		w.httpURL("realtime.url", address)
	}
	if !headerName.MatchString(r.APIKeyHeader) {
		w.wrong("realtime.api_key_header", "%q is not a header name", r.APIKeyHeader)
	}
	w.oneOf("realtime.call_body", r.CallBody, "form", "json")
	w.oneOf("realtime.noise_reduction", r.NoiseReduction, "", "near_field", "far_field")
	if r.Language != "" && !languageCode.MatchString(r.Language) {
		w.wrong("realtime.language", "%q is not a language code, such as en or de", r.Language)
	}
	r.TurnDetection.check(w)
	l := c.Calls
	w.between("calls.renew_before_minutes", l.RenewBeforeMinutes, 0, 24*60)
	w.between("calls.grace_seconds", l.GraceSeconds, 0, 600)
	w.between("calls.close_grace_seconds", l.CloseGraceSeconds, 0, 600)
	w.between("calls.idle_minutes", l.IdleMinutes, 0, 24*60)
	w.between("calls.max_minutes", l.MaxMinutes, 0, 7*24*60)
	w.between("calls.max_tool_rounds", l.MaxToolRounds, 1, 1000)
	w.number("budget.call_usd", c.Budget.CallUSD, 1e6)
	w.number("budget.owner_day_usd", c.Budget.OwnerDayUSD, 1e6)
	w.between("budget.warn_percent", c.Budget.WarnPercent, 1, 100)
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

// checkTelemetry checks the settings for monitoring.
func (c *Config) checkTelemetry(w *checks) {
	if c.Metrics.Listen != "" {
		w.address("metrics.listen", c.Metrics.Listen, "127.0.0.1:9090")
		if _, port, _ := net.SplitHostPort(c.Metrics.Listen); port != "0" && c.MetricsAddress() == c.Listen {
			w.wrong("metrics.listen", "the page and the API already use this address")
		}
	}
	if c.Traces.Endpoint != "" {
		w.httpURL("traces.endpoint", c.Traces.Endpoint)
	}
	w.number("traces.sample", c.Traces.Sample, 1)
}

// checkServing checks the settings of how others reach the server.
func (c *Config) checkServing(w *checks) {
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		w.wrong("tls.cert_file", "it and tls.key_file belong together")
	}
	switch {
	case len(c.TURN.URLs) > 0 && !c.Secrets.TURNSecret.IsSet():
		w.wrong("turn.urls", "they need VOICEBRIDGE_TURN_SECRET")
	case len(c.TURN.URLs) == 0 && c.Secrets.TURNSecret.IsSet():
		w.wrong("turn.urls", "VOICEBRIDGE_TURN_SECRET is set, but there are no servers to use it with")
	}
	for _, address := range c.TURN.URLs {
		if !strings.HasPrefix(address, "turn") || !iceURL.MatchString(address) {
			w.wrong("turn.urls", "%q is not of the form turn:host:port", address)
		}
	}
	w.between("turn.ttl_minutes", c.TURN.TTLMinutes, 1, 24*60)
}
