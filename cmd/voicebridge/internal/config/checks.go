package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// named returns a key together with the variable that sets it, if that has a name of its own or the
// key is at the top level.
func named(key string) string {
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if variables[name] == key {
			return key + " (" + name + ")"
		}
	}
	if name, ok := secretNames[key]; ok {
		return key + " (" + name + ")"
	}
	if _, ok := typeOf(key); ok && !strings.Contains(key, ".") {
		return key + " (" + prefix + strings.ToUpper(key) + ")"
	}
	return key
}

// checks collects wrong values by key.
type checks []error

func (c *checks) wrong(key, format string, args ...any) {
	*c = append(*c, fmt.Errorf(named(key)+": "+format, args...))
}

func (c *checks) oneOf(key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		c.wrong(key, "%q is not one of %s", value, strings.Join(slices.DeleteFunc(allowed, func(s string) bool { return s == "" }), ", "))
	}
}

func (c *checks) between(key string, value, low, high int) {
	if value < low || value > high {
		c.wrong(key, "%d is not between %d and %d", value, low, high)
	}
}

func (c *checks) present(key, value string) {
	if strings.TrimSpace(value) == "" {
		c.wrong(key, "it must not be empty")
	}
}

func (c *checks) httpURL(key, value string) {
	u, err := url.Parse(value)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		c.wrong(key, "it must be an address of the form https://host/path")
		return
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		c.wrong(key, "it must not contain a user, a query or a fragment")
	}
}

// address checks host:port, and returns the host.
func (c *checks) address(key, value, example string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		c.wrong(key, "it must be host:port, such as %s", example)
		return "", false
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		c.wrong(key, "the port must be a number between 0 and 65535")
	}
	return host, true
}

func (c *checks) number(key string, value, high float64) {
	if !(value >= 0 && value <= high) {
		c.wrong(key, "%v is not between 0 and %s", value, strconv.FormatFloat(high, 'f', -1, 64))
	}
}

// maxInstructions is the largest size of a model's instructions, in bytes.
const maxInstructions = 32 << 10
