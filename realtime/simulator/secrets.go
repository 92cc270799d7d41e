package simulator

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/served"
)

const (
	maxSecrets     = 1000
	secretLifetime = 600 // seconds
)

func (s *Server) createSecret(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.authorize(w, r); !ok {
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, http.StatusBadRequest, refuse("invalid_request", "", "The body is too large."))
		return
	}
	body, err := served.Read[object](raw)
	if err != nil && len(raw) > 0 {
		writeError(w, http.StatusBadRequest, refuse("invalid_json", "", "The body is not a JSON object."))
		return
	}
	var set *served.Settings
	session := realtime.Member(raw, "session")
	refusal := realtime.SecretFields.Check("", body, defaultModel)
	if refusal == nil {
		set, refusal = s.newSettings(session)
	}
	if refusal != nil {
		writeError(w, http.StatusBadRequest, refusal)
		return
	}
	seconds := int64(secretLifetime)
	if n, ok := served.Lookup(body, "expires_after", "seconds"); ok {
		if v, err := n.(json.Number).Int64(); err == nil {
			seconds = v
		}
	}
	value := newID("ek_")
	expires := time.Now().Add(time.Duration(seconds) * time.Second)
	if !s.keepSecret(value, secret{expires: expires, session: session}) {
		writeError(w, http.StatusTooManyRequests,
			refuse("rate_limit_exceeded", "", "Too many client secrets are open."))
		return
	}
	writeJSON(w, object{"value": value, "expires_at": expires.Unix(), "session": set.Shown()})
}

// keepSecret stores a secret and drops expired ones. It returns false if there are too many.
func (s *Server) keepSecret(value string, sec secret) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.secrets, func(_ string, old secret) bool { return time.Now().After(old.expires) })
	if len(s.secrets) >= maxSecrets {
		return false
	}
	s.secrets[value] = sec
	return true
}

// authorize accepts the configured key or an ephemeral one, whose session it returns.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) (session json.RawMessage, ok bool) {
	token, found := keyOf(r)
	s.mu.Lock()
	sec, ephemeral := s.secrets[token]
	s.mu.Unlock()
	switch {
	case ephemeral && time.Now().Before(sec.expires):
		return sec.session, true
	case s.cfg.APIKey == "" && !strings.HasPrefix(token, "ek_"):
		return nil, true
	case found && token == s.cfg.APIKey:
		return nil, true
	case !found:
		writeError(w, http.StatusUnauthorized, refuse("", "", "Missing bearer authentication in header"))
	default:
		writeError(w, http.StatusUnauthorized, refuse("invalid_api_key", "", "Incorrect API key provided."))
	}
	return nil, false
}

// keyProtocol begins the subprotocol by which browsers, which can set no headers, send their key.
const keyProtocol = "openai-insecure-api-key."

// keyOf returns the key of a request, from its header or from a subprotocol.
func keyOf(r *http.Request) (key string, found bool) {
	if key, found = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); found {
		return key, true
	}
	for list := range slices.Values(r.Header.Values("Sec-WebSocket-Protocol")) {
		for name := range strings.SplitSeq(list, ",") {
			if key, found = strings.CutPrefix(strings.TrimSpace(name), keyProtocol); found {
				return key, true
			}
		}
	}
	return "", false
}
