package doctor

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/internal/testkit"
)

// settings are the keys of all settings with their types.
func settings() map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for _, s := range config.Settings() {
		if !config.IsGroup(s.Field.Type) && !strings.Contains(s.Key, "[") {
			out[s.Key] = s.Field.Type
		}
	}
	return out
}

// wrong holds invalid values, and words that the finding must contain. A text setting that is not
// listed accepts any text.
var wrong = map[string]struct{ value, words string }{
	"listen":                            {"8080", "it must be host:port, such as 127.0.0.1:8080"},
	"database_url":                      {"mysql://h/db", "it must be sqlite:PATH or postgres://…"},
	"upstream":                          {"gpt", `"gpt" is neither the name of one of upstreams nor a profile`},
	"private_url":                       {"10.0.0.5:8080", "it must be an address of the form https://host/path"},
	"openai_base_url":                   {"api.openai.com", "it must be an address of the form https://host/path"},
	"allowed_origins":                   {"*", `"*"`},
	"trusted_proxies":                   {"proxy", `"proxy" is not an address or a network`},
	"jwt_jwks_url":                      {"http://keys.example.org", "must be fetched by https"},
	"public_ips":                        {"1.2.3", `"1.2.3" is not an IP address`},
	"ice_servers":                       {`[{"urls":["http://stun"]}]`, "the schemes of URLs are stun, stuns, turn and turns"},
	"anthropic_base_url":                {"claude", "it must be an address of the form https://host/path"},
	"gemini_base_url":                   {"gemini", "it must be an address of the form https://host/path"},
	"ollama_host":                       {"http://a b", "it must be an address, such as http://127.0.0.1:11434"},
	"prices":                            {`[{"model":"m","input":-1}]`, "prices[0].input: -1 is not between 0 and 1000000"},
	"upstreams":                         {`[{"name":"a","profile":"nobody"}]`, "upstreams[0].profile: \"nobody\" is not one of"},
	"hooks.endpoints":                   {`[{"url":"http://example.com/","events":["*"],"secret_env":"HOOK"}]`, "the URL must begin with https://"},
	"hooks.allow":                       {"https://example.com", "is not a host, nor host:port"},
	"text.accepts":                      {`[{"model":"m","context_tokens":-1}]`, "text.accepts[0].context_tokens: -1 is not between 0 and 100000000"},
	"text.provider":                     {"gpt", `"gpt" is not one of openai, anthropic, google, ollama, simulator`},
	"text.openai_api":                   {"completions", `"completions" is not one of responses, chat`},
	"text.instructions":                 {strings.Repeat("x", 33<<10), "it is longer than 32 KiB"},
	"tls.cert_file":                     {"x.pem", "belong together"},
	"tls.key_file":                      {"x.pem", "belong together"},
	"turn.urls":                         {"turn:a:1", "they need VOICEBRIDGE_TURN_SECRET"},
	"realtime.instructions":             {strings.Repeat("x", 33<<10), "it is longer than 32 KiB"},
	"realtime.url":                      {"azure", "it must be an address of the form https://host/path"},
	"realtime.api_key_header":           {"a b", "is not a header name"},
	"realtime.noise_reduction":          {"loud", `"loud" is not one of near_field, far_field`},
	"realtime.language":                 {"English", "is not a language code, such as en or de"},
	"realtime.call_body":                {"xml", `"xml" is not one of`},
	"realtime.turn_detection.type":      {"vad", `"vad" is not one of semantic_vad, server_vad, none`},
	"realtime.turn_detection.eagerness": {"eager", `"eager" is not one of low, medium, high, auto`},
	"cascade.stt.url":                   {"ws://h", "it must be an address of the form https://host/path"},
	"cascade.stt.language":              {"English", "is not a language code, such as en or de"},
	"cascade.stt.api_key_env":           {"MY KEY", `"MY KEY" is not the name of a variable`},
	"cascade.stt.path":                  {"inference", `"inference" is not the path of an address`},
	"cascade.tts.url":                   {"h", "it must be an address of the form https://host/path"},
	"cascade.tts.format":                {"mp3", `"mp3" is not one of pcm, wav`},
	"cascade.tts.api_key_env":           {"1", `"1" is not the name of a variable`},
	"cascade.tts.path":                  {"/speech?a=b", "is not the path of an address"},
	"cascade.text.provider":             {"gpt", `"gpt" is not one of openai, anthropic, google, ollama, simulator`},
	"cascade.turns.vad":                 {"webrtc", `"webrtc" is not one of silero, energy`},
	"phone.lines":                       {"x", ""},
	"phone.dial_prefixes":               {"49", ""},
	"phone.machine":                     {"wait", `"wait" is not one of hangup, message, off`},
	"public_url":                        {"voice.example.org", "https://"},
	"realtime.keyterms":                 {strings.Repeat("x", 65), ""},
	"tools.filler_lines":                {strings.Repeat("x", 5000), ""},
	"calls.answer":                      {"later", `"later" is not one of at_once, after_upstream`},
	"tools.toolkits":                    {"games", `"games" is not one of artifacts, code, web, http, agent`},
	"tools.allow":                       {"http:write", "only tools.approve takes the ending :write"},
	"tools.deny":                        {"http:write", "only tools.approve takes the ending :write"},
	"tools.approve":                     {"a b", ""},
	"tools.web.search":                  {"google", ""},
	"tools.web.searxng_url":             {"searx", ""},
	"tools.web.allow_networks":          {"lan", `"lan" is not an address or a network`},
	"tools.web.deny_networks":           {"lan", `"lan" is not an address or a network`},
	"tools.web.allow_ports":             {"70000", "70000 is not between 1 and 65535"},
	"limits.allowed_models":             {"gpt", `"gpt" is not of the form provider/model`},
	"recording.s3_endpoint":             {"minio", ""},
	"assistants":                        {`[{"nonsense":1}]`, ""},
	"log.level":                         {"loud", `"loud" is not one of debug, info, warn, error`},
	"log.format":                        {"xml", `"xml" is not one of text, json`},
	"metrics.listen":                    {"9090", "it must be host:port, such as 127.0.0.1:8080"},
	"traces.endpoint":                   {"collector:4318", "it must be an address of the form https://host/path"},
}

// anyText are the settings that accept any text: whether it is right only their servers or the file
// system know, which other findings cover.
var anyText = []string{
	"jwt_issuer", "jwt_audience", "jwt_may_claim", "mcp_config", "realtime.model", "realtime.voice", "realtime.transcription_model", "text.model", "cascade.stt.model", "cascade.stt.prompt", "cascade.tts.model", "cascade.tts.voice", "cascade.text.model", "recording.store", "recording.s3_region", "recording.announce",
}

// diagnosis is the report on an environment.
func diagnosis(t *testing.T, environ ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "empty.yaml")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	var b strings.Builder
	if err := Run(t.Context(), config.Sources{File: file, Environ: environ}, "v", &b, func(string) {}); err == nil {
		t.Errorf("%q is no problem:\n%s", environ, &b)
	}
	return b.String()
}

// TestEveryWrongSetting gives each setting an invalid value: the finding names the setting, or its
// variable, and says in plain words what it must be.
func TestEveryWrongSetting(t *testing.T) {
	t.Parallel()
	all := settings()
	for _, known := range slices.Concat(slices.Collect(maps.Keys(wrong)), anyText) {
		if all[known] == nil {
			t.Errorf("there is no setting %s", known)
		}
	}
	for key, kind := range all {
		if slices.Contains(anyText, key) {
			continue
		}
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			if kind.Kind() == reflect.Pointer {
				kind = kind.Elem()
			}
			values := []struct{ value, words string }{}
			if w, ok := wrong[key]; ok {
				values = append(values, w)
			}
			switch kind.Kind() {
			case reflect.Int, reflect.Int64:
				values = append(values, struct{ value, words string }{"many", "it must be a whole number"}, struct{ value, words string }{"-1", ""})
			case reflect.Float64:
				values = append(values, struct{ value, words string }{"much", "it must be a number"}, struct{ value, words string }{"-1", "-1 is not between 0"})
			case reflect.Bool:
				values = append(values, struct{ value, words string }{"maybe", "it must be true or false"})
			default:
			}
			if len(values) == 0 {
				t.Fatal("no wrong value is known: add one, or say that any text is right")
			}
			variable := config.Variable(key)
			for _, v := range values {
				report := diagnosis(t, variable+"="+v.value)
				named := strings.Contains(report, variable) || strings.Contains(report, key)
				if !named || !strings.Contains(report, v.words) || strings.Contains(report, "%!") {
					t.Errorf("%s=%.20s: want %q in\n%s", variable, v.value, v.words, report)
				}
				if n := strings.Count(report, "\n"); n > 3 {
					t.Errorf("%s=%.20s: %d findings of one setting:\n%s", variable, v.value, n, report)
				}
			}
		})
	}
}

// TestEveryWrongSecret gives each secret an invalid value, which the finding does not repeat.
func TestEveryWrongSecret(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"VOICEBRIDGE_SECRET": "canary", "VOICEBRIDGE_JWT_SECRET": "canary", "VOICEBRIDGE_API_TOKENS": "canary", "VOICEBRIDGE_ICE_SERVERS": "turn:canary",
		"DATABASE_URL": "mysql://canary", "OTEL_EXPORTER_OTLP_HEADERS": "canary", "VOICEBRIDGE_TURN_SECRET": "canary",
	}
	for _, name := range config.SecretVariables() {
		value, ok := values[name]
		if !ok {
			value = "canary with a space" // a key
		}
		report := diagnosis(t, name+"="+value)
		if !strings.Contains(report, name) || strings.Contains(report, "canary") {
			t.Errorf("%s: %s", name, report)
		}
	}
}
