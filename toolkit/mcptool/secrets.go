package mcptool

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// secretName matches the names of variables that contain secrets. The values of others are words that
// may occur in any message.
var secretName = regexp.MustCompile(`(?i)key|token|secret|pass|pwd|auth|cred|jwt|dsn|connection`)

// withPassword finds the password of an address, as in postgres://user:password@host/.
var withPassword = regexp.MustCompile(`://[^/\s@:]*:([^/\s@]+)@`)

// Shorter texts are words such as "true", and parts of a path such as "streamable".
const (
	minSecret  = 6
	minSegment = 16
)

// secretsOf returns a replacer that removes possible secrets from a text: values of env that are
// named like secrets or are URLs with a password, the values of headers, and the part of the URL
// after the host.
func secretsOf(config Server) *strings.Replacer {
	var secrets []string
	for name, value := range config.Env {
		password := withPassword.FindStringSubmatch(value)
		if password != nil {
			secrets = append(secrets, password[1])
		}
		if password != nil || secretName.MatchString(name) {
			secrets = append(secrets, value)
		}
	}
	for _, value := range config.Headers {
		_, token, _ := strings.Cut(value, " ") // of "Bearer …"
		secrets = append(secrets, value, token)
	}
	secrets = append(secrets, config.ClientSecret)
	secrets = append(secrets, secretsOfURL(config.URL)...)
	secrets = slices.DeleteFunc(secrets, func(secret string) bool { return len(secret) < minSecret })
	// Of two with the same beginning the first counts, so the longer one comes first.
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, secret := range slices.Compact(secrets) {
		pairs = append(pairs, secret, "[secret]")
	}
	return strings.NewReplacer(pairs...)
}

// secretsOfURL returns the parts of a URL that may be secret, as written and as errors quote them:
// a token may be the password, a part of the path, or in the query.
func secretsOfURL(address string) []string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil
	}
	secrets := []string{strings.TrimPrefix(u.RequestURI(), "/"), u.RawQuery, u.Fragment}
	if password, ok := u.User.Password(); ok {
		secrets = append(secrets, password)
	}
	for _, path := range []string{u.Path, u.EscapedPath()} {
		secrets = append(secrets, strings.TrimPrefix(path, "/"))
		for segment := range strings.SplitSeq(path, "/") { // the server may name others below it
			if len(segment) >= minSegment {
				secrets = append(secrets, segment)
			}
		}
	}
	for _, values := range u.Query() {
		secrets = append(secrets, values...)
	}
	return secrets
}
