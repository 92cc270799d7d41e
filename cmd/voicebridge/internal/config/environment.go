package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"voicebridge/web"
	"voicebridge/web/access"
)

// variable is a variable of the environment that sets a key.
type variable struct {
	key   string
	parse func(string) (any, error)
}

// variables are those that are no secrets.
var variables = map[string]variable{
	"VOICEBRIDGE_LISTEN":                       {"listen", asText},
	"OPENAI_BASE_URL":                          {"openai_base_url", asText},
	"VOICEBRIDGE_REALTIME_MODEL":               {"realtime.model", asText},
	"VOICEBRIDGE_REALTIME_VOICE":               {"realtime.voice", asText},
	"VOICEBRIDGE_REALTIME_TRANSCRIPTION_MODEL": {"realtime.transcription_model", asText},
	"VOICEBRIDGE_UPSTREAM":                     {"upstream", asText},
	"VOICEBRIDGE_TEXT_PROVIDER":                {"text.provider", asText},
	"VOICEBRIDGE_TEXT_MODEL":                   {"text.model", asText},
	"ANTHROPIC_BASE_URL":                       {"anthropic_base_url", asText},
	"GEMINI_BASE_URL":                          {"gemini_base_url", asText},
	"OLLAMA_HOST":                              {"ollama_host", asText},
	"VOICEBRIDGE_JWT_JWKS_URL":                 {"jwt_jwks_url", asText},
	"VOICEBRIDGE_JWT_ISSUER":                   {"jwt_issuer", asText},
	"VOICEBRIDGE_JWT_AUDIENCE":                 {"jwt_audience", asText},
	"VOICEBRIDGE_ALLOWED_ORIGINS":              {"allowed_origins", asList},
	"VOICEBRIDGE_UDP_PORT":                     {"udp_port", asNumber},
	"VOICEBRIDGE_PUBLIC_IPS":                   {"public_ips", asList},
	"VOICEBRIDGE_MCP_CONFIG":                   {"mcp_config", asText},
	"VOICEBRIDGE_SEARXNG_URL":                  {"tools.web.searxng_url", asText},
}

// otherNames are variables that may be written in a shorter way.
var otherNames = map[string]string{
	"VOICEBRIDGE_VOICE":               "VOICEBRIDGE_REALTIME_VOICE",
	"VOICEBRIDGE_TRANSCRIPTION_MODEL": "VOICEBRIDGE_REALTIME_TRANSCRIPTION_MODEL",
}

// secretVariables are those that are, or may hold, secrets.
var secretVariables = map[string]func(*Secrets, string) error{
	"OPENAI_API_KEY":          func(s *Secrets, v string) error { s.OpenAIKey = access.NewSecret(v); return checkKey(v) },
	"ANTHROPIC_API_KEY":       func(s *Secrets, v string) error { s.AnthropicKey = access.NewSecret(v); return checkKey(v) },
	"GEMINI_API_KEY":          func(s *Secrets, v string) error { s.GeminiKey = access.NewSecret(v); return checkKey(v) },
	"OLLAMA_API_KEY":          func(s *Secrets, v string) error { s.OllamaKey = access.NewSecret(v); return checkKey(v) },
	"EXA_API_KEY":             func(s *Secrets, v string) error { s.ExaKey = access.NewSecret(v); return checkKey(v) },
	"TAVILY_API_KEY":          func(s *Secrets, v string) error { s.TavilyKey = access.NewSecret(v); return checkKey(v) },
	"BRAVE_API_KEY":           func(s *Secrets, v string) error { s.BraveKey = access.NewSecret(v); return checkKey(v) },
	"VOICEBRIDGE_SECRET":      func(s *Secrets, v string) error { s.Signing = access.NewSecret(v); return nil },
	"VOICEBRIDGE_JWT_SECRET":  parseJWTSecret,
	"VOICEBRIDGE_API_TOKENS":  parseTokens,
	"VOICEBRIDGE_ICE_SERVERS": parseICEServers,
	"DATABASE_URL":            func(s *Secrets, v string) error { s.DatabaseURL = access.NewSecret(v); return nil },
}

func asText(v string) (any, error) { return v, nil }

func asNumber(v string) (any, error) {
	n, err := strconv.Atoi(v)
	if err != nil {
		return nil, errors.New("it must be a whole number")
	}
	return n, nil
}

// asList splits at commas.
func asList(v string) (any, error) {
	list := splitList(v)
	out := make([]any, 0, len(list))
	for _, item := range list {
		out = append(out, item)
	}
	return out, nil
}

func splitList(v string) []string {
	var out []string
	for item := range strings.SplitSeq(v, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// checkKey refuses a key that cannot stand in a header, such as one that was
// pasted with a line break in it.
func checkKey(v string) error {
	if strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the key holds characters that no key has (a space, a line break?)")
	}
	return nil
}

// parseJWTSecret refuses a secret that can be guessed.
func parseJWTSecret(s *Secrets, v string) error {
	if len(v) < access.MinJWTSecret {
		s.badTokens = true
		return fmt.Errorf("it has less than %d bytes, so it could be guessed", access.MinJWTSecret)
	}
	s.JWTSecret = access.NewSecret(v)
	return nil
}

// parseTokens reads owner:token pairs. Errors count the pairs and never repeat
// them.
func parseTokens(s *Secrets, v string) error {
	var problems []error
	seen := map[string]bool{}
	for i, pair := range splitList(v) {
		owner, token, ok := strings.Cut(pair, ":")
		owner, token = strings.TrimSpace(owner), strings.TrimSpace(token)
		switch {
		case !ok || owner == "" || token == "":
			problems = append(problems, fmt.Errorf("entry %d must be owner:token", i+1))
		case strings.HasPrefix(token, "ek_"):
			problems = append(problems, fmt.Errorf("entry %d: tokens that begin with ek_ are client secrets", i+1))
		case checkKey(token) != nil:
			problems = append(problems, fmt.Errorf("entry %d: the token holds characters that cannot be sent", i+1))
		case len(token) < access.MinToken:
			problems = append(problems, fmt.Errorf("entry %d: a token of less than %d characters could be guessed", i+1, access.MinToken))
		case seen[token]:
			problems = append(problems, fmt.Errorf("entry %d has the token of another entry", i+1))
		default:
			seen[token] = true
			s.Tokens = append(s.Tokens, access.StaticToken{Owner: owner, Token: access.NewSecret(token)})
		}
	}
	if len(problems) == 0 && len(s.Tokens) == 0 {
		problems = append(problems, errors.New("there is no token in it"))
	}
	s.badTokens = len(problems) > 0
	return errors.Join(problems...)
}

// parseICEServers reads URLs with commas between them, or for servers with a
// password JSON in the form of the browser's RTCIceServer.
func parseICEServers(s *Secrets, v string) error {
	if !strings.HasPrefix(v, "[") {
		for _, u := range splitList(v) {
			if strings.HasPrefix(u, "turn") {
				return errors.New(`a TURN server needs a password: write [{"urls":["turn:…"],"username":"…","credential":"…"}]`)
			}
			s.ICEServers = append(s.ICEServers, web.ICEServer{URLs: []string{u}})
		}
		return checkICEServers(s.ICEServers)
	}
	var list []struct {
		URLs       oneOrMore `json:"urls"`
		Username   string    `json:"username"`
		Credential string    `json:"credential"`
	}
	decoder := json.NewDecoder(strings.NewReader(v))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&list); err != nil || decoder.More() {
		// The decoder's words may repeat a password.
		return errors.New(`it must be JSON of the form [{"urls":["turn:…"],"username":"…","credential":"…"}]`)
	}
	for _, i := range list {
		s.ICEServers = append(s.ICEServers, web.ICEServer{URLs: i.URLs, Username: i.Username, Credential: access.NewSecret(i.Credential)})
	}
	return checkICEServers(s.ICEServers)
}

// oneOrMore is a text or a list of texts, as RTCIceServer.urls is.
type oneOrMore []string

// UnmarshalJSON implements [json.Unmarshaler].
func (o *oneOrMore) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*o = []string{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(o))
}

func checkICEServers(servers []web.ICEServer) error {
	for i, server := range servers {
		if len(server.URLs) == 0 {
			return fmt.Errorf("server %d has no urls", i+1)
		}
		for _, u := range server.URLs {
			scheme, rest, _ := strings.Cut(u, ":")
			switch scheme {
			case "stun", "stuns":
			case "turn", "turns":
				if server.Username == "" || !server.Credential.IsSet() {
					return fmt.Errorf("server %d is a TURN server without username and credential", i+1)
				}
			default:
				return fmt.Errorf("server %d: the schemes of URLs are stun, stuns, turn and turns", i+1)
			}
			if rest == "" || strings.HasPrefix(rest, "//") {
				return fmt.Errorf("server %d: a URL must be of the form stun:host:port", i+1)
			}
		}
	}
	return nil
}

// secretKey finds keys of the file that ask for a secret.
var secretKey = regexp.MustCompile(`(?i)(^|[._-])(api_?keys?|key|secret|tokens?|api_tokens|password|passwd|credentials?)$`)

// secretNames are where the secrets belong that have a variable.
var secretNames = map[string]string{
	"openai_api_key": "OPENAI_API_KEY", "anthropic_api_key": "ANTHROPIC_API_KEY", "gemini_api_key": "GEMINI_API_KEY", "ollama_api_key": "OLLAMA_API_KEY",
	"exa_api_key": "EXA_API_KEY", "tavily_api_key": "TAVILY_API_KEY", "brave_api_key": "BRAVE_API_KEY",
	"jwt_secret": "VOICEBRIDGE_JWT_SECRET", "api_tokens": "VOICEBRIDGE_API_TOKENS",
	"database_url": "DATABASE_URL", "ice_servers": "VOICEBRIDGE_ICE_SERVERS",
}

// refuseSecrets notes every secret in the file. Keys that are settings, such as
// max_tokens, are not asked.
func (l *loader) refuseSecrets(raw map[string]any) { l.refuseSecretsIn("", raw) }

func (l *loader) refuseSecretsIn(path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			l.refuseSecretsIn(strings.TrimPrefix(path+"."+key, "."), inner)
		}
		return
	case []any:
		for i, inner := range v {
			l.refuseSecretsIn(fmt.Sprintf("%s[%d]", path, i), inner)
		}
		return
	case string:
		if u, err := url.Parse(v); err == nil && u.User != nil {
			if _, has := u.User.Password(); has {
				l.refuseSecret(path)
				return
			}
		}
	}
	if secretKey.MatchString(path) && !strings.HasSuffix(path, ".max_tokens") && !strings.HasSuffix(path, "_chunk_tokens") {
		l.refuseSecret(path)
	}
}

func (l *loader) refuseSecret(path string) {
	l.refused[path] = true
	top, _, _ := strings.Cut(strings.ToLower(path), "[")
	where := "the environment"
	if name, ok := secretNames[top]; ok {
		where = name + " in the environment"
	}
	l.note(fmt.Errorf("%s: secrets do not belong into the file: use %s", path, where))
}
