package config

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// secretKey matches keys whose values are secrets.
var secretKey = regexp.MustCompile(`(?i)(^|[._-])(api_?keys?|key|secret|tokens?|api_tokens|(ssl)?password|passwd|credentials?)$`)

// refuseSecrets notes every secret in a value of the file. Keys that are settings, such as max_tokens, are
// exempt.
func (l *loader) refuseSecrets(path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			l.refuseSecrets(strings.TrimPrefix(path+"."+key, "."), inner)
		}
		return
	case []any:
		for i, inner := range v {
			l.refuseSecrets(fmt.Sprintf("%s[%d]", path, i), inner)
		}
		return
	case string:
		if u, err := url.Parse(v); err == nil && holdsSecret(u) {
			l.refuseSecret(path)
			return
		}
	}
	if secretKey.MatchString(path) && !strings.HasSuffix(path, ".max_tokens") && !strings.HasSuffix(path, "_chunk_tokens") {
		l.refuseSecret(path)
	}
}

// holdsSecret reports whether an address has a password, or a parameter that is a secret.
func holdsSecret(u *url.URL) bool {
	for name := range u.Query() {
		if u.Scheme != "" && secretKey.MatchString(name) {
			return true
		}
	}
	_, has := u.User.Password()
	return has
}

func (l *loader) refuseSecret(path string) {
	l.refused[path] = true
	top, _, _ := strings.Cut(strings.ToLower(path), "[")
	where := "the environment"
	if name, ok := secretNames[top]; ok {
		where = name + " in the environment"
	}
	l.note(fmt.Errorf("%s: secrets do not belong in the file: use %s", path, where))
}
