package config

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestAssistants(t *testing.T) {
	t.Parallel()
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 24)))
	cfg, err := Load(Sources{Environ: []string{"DESK_SECRET=" + secret}, File: write(t, `
assistants:
  - name: Front desk
    instructions: You help {{user}}.
    voice: {voice: cedar, speed: 1, turn_detection: {type: none}}
    tools: {allow: []}
    http_tools: [{name: look, url: "https://a.example/x", parameters: {type: object, properties: {n: {type: integer, minimum: 1}}}}]
    secret_env: DESK_SECRET
    limits: {max_minutes: 5}
  - {id: other, name: Other}
`)})
	must(t, err)
	if len(cfg.Fixed) != 2 {
		t.Fatalf("assistants %+v", cfg.Fixed)
	}
	a := cfg.Fixed[0]
	if a.ID != "front-desk" || a.Secret != secret || a.Voice.Voice != "cedar" || a.Tools.Allow == nil || *a.Limits.MaxMinutes != 5 || a.Voice.TurnDetection.Type != "none" || !a.Fixed() {
		t.Errorf("assistant %+v", a)
	}
	byEnvironment, err := Load(Sources{File: noFile(t), Environ: []string{`VOICEBRIDGE_ASSISTANTS=[{"name":"Front desk"}]`}})
	must(t, err)
	if len(byEnvironment.Fixed) != 1 || byEnvironment.Fixed[0].ID != "front-desk" {
		t.Errorf("assistants %+v", byEnvironment.Fixed)
	}
}

func TestBadAssistants(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[{}]`:                                      "assistants[0].name",
		`[{name: x}, {name: X}]`:                    "assistants[1].id",
		`[{name: x, voice: {speed: 9}}]`:            "assistants[0].voice.speed",
		`[{name: x, voice: {upstream: nowhere}}]`:   "assistants[0].voice.upstream",
		`[{name: x, text: {provider: anthropic}}]`:  "assistants[0].text.provider",
		`[{name: x, extract: {type: array}}]`:       "assistants[0].extract",
		`[{name: x, keyterms: [""]}]`:               "assistants[0].keyterms[0]",
		`[{name: x, label: y}]`:                     "assistants[0].label",
		`[{name: x, secret_env: NO_SUCH_VARIABLE}]`: "assistants[0].secret_env",
		`[{name: x, secret: whsec_x}]`:              "assistants[0].secret",
		`{name: x}`:                                 "assistants",
	} {
		_, err := Load(Sources{File: write(t, "assistants: "+text)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that names %s", text, err, want)
		}
	}
}
