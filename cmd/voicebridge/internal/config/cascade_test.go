package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
)

// TestCascade reads cascades, from the top and as entries of upstreams, and refuses what cannot work.
func TestCascade(t *testing.T) {
	t.Parallel()
	const stt, tts = "VOICEBRIDGE_CASCADE__STT__URL=http://s/v1 ", "VOICEBRIDGE_CASCADE__TTS__URL=http://t/v1 "
	const entry = `VOICEBRIDGE_UPSTREAMS=[{"name":"own","profile":"cascade","cascade":{"stt":{"url":"http://a"},"tts":{"url":"http://b"%s}}}] `
	hasKey := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(hasKey, []byte("from-file\n"), 0o600))
	for name, c := range map[string]struct {
		environ string
		names   string // of the upstreams
		of      string // addresses, model, voice, format, keys of the first cascade
		problem string
	}{
		"in place of the simulator":      {environ: stt + tts, names: "cascade", of: "http://s/v1 /audio/transcriptions  http://t/v1 /audio/speech kokoro af_heart pcm  "},
		"after a vendor with a key":      {environ: stt + tts + "OPENAI_API_KEY=sk-1", names: "openai cascade"},
		"before it, by name":             {environ: stt + tts + "OPENAI_API_KEY=sk-1 VOICEBRIDGE_UPSTREAM=cascade", names: "cascade"},
		"the simulator, by name":         {environ: stt + tts + "VOICEBRIDGE_UPSTREAM=simulator", names: "simulator cascade"},
		"an entry":                       {environ: strings.Replace(entry, "%s", `,"voice":"x","format":"wav"`, 1), names: "own", of: "http://a /audio/transcriptions  http://b /audio/speech kokoro x wav  "},
		"an entry and the top":           {environ: strings.Replace(entry, "%s", "", 1) + stt + tts, names: "own cascade"},
		"an entry that has the top's":    {environ: `VOICEBRIDGE_UPSTREAMS=[{"name":"own","profile":"cascade"}] ` + stt + tts, names: "own", of: "http://s/v1 /audio/transcriptions  http://t/v1 /audio/speech kokoro af_heart pcm  "},
		"whisper.cpp's path":             {environ: stt + tts + "VOICEBRIDGE_CASCADE__STT__PATH=/inference VOICEBRIDGE_CASCADE__STT__MODEL=m", names: "cascade", of: "http://s/v1 /inference m http://t/v1 /audio/speech kokoro af_heart pcm  "},
		"keys, one in a file":            {environ: stt + tts + "VOICEBRIDGE_CASCADE__STT__API_KEY_ENV=A VOICEBRIDGE_CASCADE__TTS__API_KEY_ENV=B A=from-env OPENAI_API_KEY=sk-1 B_FILE=" + hasKey, names: "openai cascade", of: "http://s/v1 /audio/transcriptions  http://t/v1 /audio/speech kokoro af_heart pcm from-env from-file"},
		"no address":                     {environ: "VOICEBRIDGE_UPSTREAM=cascade", problem: "cascade.stt.url: a cascade needs it, such as http://127.0.0.1:8000/v1 (VOICEBRIDGE_CASCADE__STT__URL)"},
		"none to speak":                  {environ: "VOICEBRIDGE_UPSTREAM=cascade OPENAI_API_KEY=sk-1 " + stt, problem: "cascade.tts.url: a cascade needs it"},
		"none in an entry":               {environ: `VOICEBRIDGE_UPSTREAMS=[{"name":"own","profile":"cascade","cascade":{"stt":{"url":"http://a"}}}]`, problem: "upstreams[0].cascade.tts.url: a cascade needs it"},
		"not an address":                 {environ: tts + "VOICEBRIDGE_CASCADE__STT__URL=ws://h", problem: "cascade.stt.url: it must be an address of the form"},
		"a path without a slash":         {environ: stt + tts + "VOICEBRIDGE_CASCADE__TTS__PATH=speech", problem: `cascade.tts.path: "speech" is not the path of an address`},
		"a rate":                         {environ: stt + tts + "VOICEBRIDGE_CASCADE__TTS__RATE=7999", problem: "cascade.tts.rate: 7999 is not between 8000 and 48000"},
		"a rate in an entry":             {environ: strings.Replace(entry, "%s", `,"rate":48001`, 1), problem: "upstreams[0].cascade.tts.rate: 48001 is not between"},
		"a format":                       {environ: stt + tts + "VOICEBRIDGE_CASCADE__TTS__FORMAT=mp3", problem: `cascade.tts.format: "mp3" is not one of pcm, wav`},
		"a detector":                     {environ: stt + tts + "VOICEBRIDGE_CASCADE__TURNS__VAD=webrtc", problem: `cascade.turns.vad: "webrtc" is not one of silero, energy`},
		"pauses in the wrong order":      {environ: stt + tts + "VOICEBRIDGE_CASCADE__TURNS__MIN_PAUSE_MS=900 VOICEBRIDGE_CASCADE__TURNS__MAX_PAUSE_MS=800", problem: "cascade.turns.min_pause_ms: 900 is more than max_pause_ms, 800"},
		"a text provider":                {environ: stt + tts + "VOICEBRIDGE_CASCADE__TEXT__PROVIDER=acme", problem: `cascade.text.provider: "acme" is not one of`},
		"a text provider without a key":  {environ: stt + tts + "VOICEBRIDGE_CASCADE__TEXT__PROVIDER=anthropic", problem: "cascade.text.provider: anthropic needs ANTHROPIC_API_KEY"},
		"a key that is not set":          {environ: stt + tts + "VOICEBRIDGE_CASCADE__STT__API_KEY_ENV=NOPE", problem: "cascade.stt.api_key_env: NOPE is not set"},
		"another profile's":              {environ: `VOICEBRIDGE_UPSTREAMS=[{"name":"x","profile":"realtime","url":"ws://h","cascade":{}}]`, problem: "upstreams[0].cascade: it is for the profile cascade"},
		"an address of the whole":        {environ: `VOICEBRIDGE_UPSTREAMS=[{"name":"x","profile":"cascade","url":"ws://h"}] ` + stt + tts, problem: "upstreams[0].url: a cascade has no transport"},
		"the name of the top is another": {environ: `VOICEBRIDGE_UPSTREAMS=[{"name":"cascade","profile":"simulator"}] ` + stt + tts, problem: `upstreams[1].name: "cascade" is the name of another`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := Load(Sources{File: noFile(t), Environ: strings.Fields(c.environ)})
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Fatalf("got %v, want %s", err, c.problem)
				}
				return
			}
			must(t, err)
			testkit.Equal(t, strings.Join(namesOf(cfg.Upstreams), " "), c.names, "the list")
			for _, u := range cfg.Upstreams {
				if u.IsCascade() && c.of != "" {
					s, v := u.Cascade.STT, u.Cascade.TTS
					got := []string{s.URL, s.Path, s.Model, v.URL, v.Path, v.Model, v.Voice, v.Format, s.Key.Reveal(), v.Key.Reveal()}
					testkit.Equal(t, strings.Join(got, " "), c.of, "the cascade")
				}
			}
		})
	}
}
