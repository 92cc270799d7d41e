package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"voicebridge/assistant"
	"voicebridge/llm/ollama"
	"voicebridge/web/access"
)

// formats are the checks of texts that the tag format names.
var formats = map[string]func(text string) error{
	"address":  func(v string) error { _, err := splitAddress(v); return err },
	"keyterm":  assistant.CheckKeyterm,
	"header":   matches(headerName, "%q is not a header name"),
	"ip":       func(v string) error { _, err := netip.ParseAddr(v); return because(err, "%q is not an IP address", v) },
	"key":      checkKey,
	"language": matches(languageCode, "%q is not a language code, such as en or de"),
	"line":     assistant.CheckLine,
	"name":     matches(shortName, "%q is not made of a-z, 0-9 and -"),
	"model":    matches(modelName, "%q is not of the form provider/model"),
	"ollama": func(v string) error {
		_, err := ollama.New(ollama.Config{Host: v})
		return because(err, "it must be an address, such as http://127.0.0.1:11434")
	},
	"number":   assistant.CheckNumber,
	"origin":   func(v string) error { _, err := access.ParseOrigin(v); return err },
	"prefix":   matches(dialPrefix, "%q is not the beginning of a number, such as +49"),
	"path":     matches(urlPath, "%q is not the path of an address, such as /audio/speech"),
	"turn":     matches(turnURL, "%q is not of the form turn:host:port"),
	"url":      checkURL,
	"variable": matches(variableName, "%q is not the name of a variable"),
}

var (
	headerName   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // RFC 9110, section 5.1
	languageCode = regexp.MustCompile(`^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)
	urlPath      = regexp.MustCompile(`^/[^\s?#]*$`)
	dialPrefix   = regexp.MustCompile(`^\+[1-9][0-9]{0,14}$`)
	modelName    = regexp.MustCompile(`^[^/]+/.+$`)
	// iceURL matches the address of a STUN or TURN server (RFC 7064, RFC 7065). Browsers refuse to make a connection at
	// all with any other.
	iceURL  = regexp.MustCompile(`^(?:stuns?|turns?)` + iceHost)
	turnURL = regexp.MustCompile(`^turns?` + iceHost)
)

const iceHost = `:(?:\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]]+)(?::[0-9]{1,5})?(?:\?transport=(?:udp|tcp))?$`

func matches(pattern *regexp.Regexp, format string) func(string) error {
	return func(text string) error {
		if !pattern.MatchString(text) {
			return fmt.Errorf(format, text)
		}
		return nil
	}
}

// because returns an error that does not quote the cause, if there is one.
func because(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return errors.New("it must be an address of the form https://host/path")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("it must not contain a user, a query or a fragment")
	}
	return nil
}

// splitAddress checks host:port, and returns the host.
func splitAddress(text string) (host string, err error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", errors.New("it must be host:port, such as 127.0.0.1:8080")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return host, errors.New("the port must be a number between 0 and 65535")
	}
	return host, nil
}

// checkKey rejects a key that cannot be sent in a header, such as one that was pasted with a line break.
func checkKey(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the key contains characters that keys never have (a space, a line break?)")
	}
	return nil
}
