package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"voicebridge/web"
	"voicebridge/web/access"
)

// inFileSuffix ends the names of variables that name a file with a secret, as Docker and systemd provide them.
const inFileSuffix = "_FILE"

// maxSecret limits such a file, in bytes.
const maxSecret = 64 << 10

// secretIn returns the secret that a variable holds, or the file that the one with the suffix names; empty if neither
// is set.
func secretIn(environ []string, name string) (string, error) {
	value := strings.TrimSpace(lookup(environ, name))
	path := strings.TrimSpace(lookup(environ, name+inFileSuffix))
	if path == "" || name == "" {
		return value, nil
	}
	f, err := os.Open(path) //nolint:gosec // the operator names it
	if err != nil {
		return "", fmt.Errorf("%s: %w", name+inFileSuffix, err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	text = bytes.TrimSpace(text)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", name+inFileSuffix, err)
	case len(text) == 0 || len(text) > maxSecret || bytes.IndexByte(text, 0) >= 0:
		return "", fmt.Errorf("%s: %s must hold the secret as text, and nothing else", name+inFileSuffix, path)
	case value != "" && value != string(text):
		return "", fmt.Errorf("%s: its secret differs from that of %s", name+inFileSuffix, name)
	}
	return string(text), nil
}

// resembles reports whether a name begins as that of one of our secrets does, so that it may be one that is misspelt.
// Amazon's and OpenTelemetry's own libraries read files, too.
func resembles(name string) bool {
	first, _, _ := strings.Cut(name, "_")
	for of := range secrets {
		if ours, _, _ := strings.Cut(of, "_"); ours == first {
			return !slices.Contains([]string{"AWS", "OTEL", "VOICEBRIDGE"}, first)
		}
	}
	return false
}

// secretFiles lists the variables that name files with secrets.
func secretFiles() string {
	return strings.Join(SecretVariables(), inFileSuffix+", ") + inFileSuffix
}

// set reads the value of a secret's variable.
func (s *Secrets) set(f reflect.StructField, value string) error {
	switch f.Name {
	case "Tokens":
		return parseTokens(s, value)
	case "ICEServers":
		return parseICEServers(s, value)
	case "TraceHeaders":
		return parseTraceHeaders(s, value)
	}
	if least, _ := strconv.Atoi(f.Tag.Get("min")); len(value) < least {
		s.badTokens = s.badTokens || f.Name == "JWTSecret"
		return fmt.Errorf("it has fewer than %v bytes, so it could be guessed", least)
	}
	*reflect.ValueOf(s).Elem().FieldByIndex(f.Index).Addr().Interface().(*access.Secret) = access.NewSecret(value)
	if format := formats[f.Tag.Get("format")]; format != nil {
		return format(value)
	}
	return nil
}

// parseTraceHeaders reads name=value pairs whose values are URL-encoded. Errors refer to pairs by
// number and never quote them.
//
// Source: OpenTelemetry Protocol Exporter, "Specifying headers via environment variables".
func parseTraceHeaders(s *Secrets, v string) error {
	s.TraceHeaders = map[string]access.Secret{}
	for i, pair := range splitList(v) {
		name, encoded, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(encoded))
		if !ok || err != nil || !headerName.MatchString(name) || strings.ContainsAny(value, "\r\n\x00") {
			return fmt.Errorf("entry %d must be name=value, with the value URL-encoded", i+1)
		}
		s.TraceHeaders[name] = access.NewSecret(value)
	}
	return nil
}

// parseTokens reads owner:token pairs. Errors refer to pairs by number and never quote them.
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
			problems = append(problems, fmt.Errorf("entry %d: the token contains characters that cannot be sent", i+1))
		case len(token) < access.MinToken:
			problems = append(problems, fmt.Errorf(
				"entry %d: a token of fewer than %d characters could be guessed", i+1, access.MinToken))
		case seen[token]:
			problems = append(problems, fmt.Errorf("entry %d repeats the token of another entry", i+1))
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

// parseICEServers reads URLs separated by commas or, for servers with a password, JSON in the form
// of the browser's RTCIceServer.
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
		// The decoder's message may quote a password.
		return errors.New(`it must be JSON of the form [{"urls":["turn:…"],"username":"…","credential":"…"}]`)
	}
	for _, i := range list {
		s.ICEServers = append(s.ICEServers, web.ICEServer{
			URLs: i.URLs, Username: i.Username, Credential: access.NewSecret(i.Credential),
		})
	}
	return checkICEServers(s.ICEServers)
}

// oneOrMore is a string or a list of strings, like RTCIceServer.urls.
type oneOrMore []string

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
			switch scheme, _, _ := strings.Cut(u, ":"); scheme {
			case "stun", "stuns":
			case "turn", "turns":
				if server.Username == "" || !server.Credential.IsSet() {
					return fmt.Errorf("server %d is a TURN server without username and credential", i+1)
				}
			default:
				return fmt.Errorf("server %d: the schemes of URLs are stun, stuns, turn and turns", i+1)
			}
			if !iceURL.MatchString(u) {
				return fmt.Errorf("server %d: a URL must be of the form stun:host:port", i+1)
			}
		}
	}
	return nil
}

// lookup reads a variable. If there are several, the last one counts, as for os/exec.
func lookup(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
