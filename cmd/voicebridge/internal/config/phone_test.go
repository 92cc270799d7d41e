package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
)

// TestPhone has lines in the file and in the environment, and what is wrong with them.
func TestPhone(t *testing.T) {
	t.Parallel()
	const key = "canary-of-16-bytes"
	load := func(text string, environ ...string) (Config, error) {
		return Load(Sources{File: write(t, text), Environ: append(environ, "TOKEN="+key, "SPACED=a b", "VOICEBRIDGE_API_TOKENS=alice:canary-of-16-bytes")})
	}
	const public = "public_url: https://voice.example/base\n"
	cfg, err := load(public + "phone: {thread_days: 7, lines: {desk: {carrier: twilio, number: '+493012345678', owner: alice, secret_env: TOKEN, max_calls: 3}}}")
	must(t, err)
	desk := cfg.Phone.Lines["desk"]
	testkit.Equal(t, fmt.Sprint(desk.Name, desk.Carrier, desk.MaxCalls, desk.MaxCallsPerCaller, desk.Secret.Reveal(), cfg.Phone.ThreadDays), "desktwilio3 2"+key+(7*24*time.Hour).String(), "the line")
	testkit.Equal(t, fmt.Sprint(cfg.Origins()), "[https://voice.example]", "origins")
	if text := fmt.Sprintf("%v %+v", cfg.Phone, desk); strings.Contains(text, key) {
		t.Errorf("the secret is printed: %s", text)
	}
	cfg, err = load(public, `VOICEBRIDGE_PHONE__LINES={"desk":{"carrier":"plivo","owner":"alice","secret_env":"TOKEN"}}`)
	must(t, err)
	testkit.Equal(t, cfg.Phone.Lines["desk"].Carrier, "plivo", "by a variable")
	for text, named := range map[string]string{
		"phone: {lines: {desk: {carrier: twilio, owner: a, secret_env: TOKEN}}}":                                     "public_url",
		"public_url: http://h\nphone: {lines: {desk: {carrier: twilio, owner: a, secret_env: TOKEN}}}":               "public_url",
		public + "phone: {lines: {desk: {carrier: other, owner: a, secret_env: TOKEN}}}":                             "phone.lines.desk.carrier",
		public + "phone: {lines: {desk: {carrier: twilio, secret_env: TOKEN}}}":                                      "phone.lines.desk.owner",
		public + "phone: {lines: {desk: {carrier: twilio, owner: a}}}":                                               "phone.lines.desk.secret_env",
		public + "phone: {lines: {desk: {carrier: twilio, owner: a, secret_env: NONE}}}":                             "NONE is not set",
		public + "phone: {lines: {desk: {carrier: twilio, owner: a, secret_env: SPACED}}}":                           "phone.lines.desk.secret_env",
		public + "phone: {lines: {desk: {carrier: telnyx, owner: a, secret_env: TOKEN, public_key: AAAA}}}":          "phone.lines.desk.public_key",
		public + "phone: {lines: {desk: {carrier: twilio, owner: a, secret_env: TOKEN, number: '030 1'}}}":           "phone.lines.desk.number",
		public + "phone: {lines: {Desk/1: {carrier: twilio, owner: a, secret_env: TOKEN}}}":                          "phone.lines.Desk/1",
		public + "phone: {lines: {desk: {carrier: twilio, owner: a, secret_env: TOKEN, auth_token: canary}}}":        "phone.lines.desk.auth_token",
		public + "phone: {lines: {desk: {carrier: twilio, owner: a, secret_env: TOKEN, max_calls: 0}}}":              "phone.lines.desk.max_calls",
		public + "phone: {lines: [{carrier: twilio}]}":                                                               "phone.lines",
		public + "phone: {lines: {desk: {carrier: twilio, owner: a, secret_env: TOKEN, api_url: 'https://u:p@h/'}}}": "phone.lines.desk.api_url",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), named) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
