package webtools

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Names of the search services, as in [Config.Provider].
const (
	ProviderSearXNG = "searxng"
	ProviderExa     = "exa"
	ProviderTavily  = "tavily"
	ProviderBrave   = "brave"
)

// Defaults of [Config].
const (
	defaultTimeout       = 25 * time.Second
	defaultPageTimeout   = 12 * time.Second
	defaultHTTPTimeout   = 10 * time.Second
	connectTimeout       = 10 * time.Second
	defaultMaxPage       = 2 << 20
	defaultMaxConcurrent = 16

	defaultExaURL    = "https://api.exa.ai"
	defaultTavilyURL = "https://api.tavily.com"
	defaultBraveURL  = "https://api.search.brave.com"
)

const (
	maxBody   = 256 << 10                               // bytes of an answer that the http tool reads
	userAgent = "Mozilla/5.0 (compatible; voicebridge)" // unless the model sets one
)

// Config configures the tools. The zero value is useful: the guarded tools with the strictest
// rules, and no search.
type Config struct {
	// Provider names the search service; empty means the first that is configured of SearXNG, Exa,
	// Tavily, Brave.
	Provider string
	// SearXNGURL is the address of a SearXNG instance, such as http://localhost:8888. It may be
	// private: searches go there, requests of a model never do.
	SearXNGURL string
	// The keys of services that need one. They are sent to their service and appear nowhere else,
	// neither in results nor in errors.
	ExaKey, TavilyKey, BraveKey string

	// AllowPrefixes are networks that are allowed although they are not public, such as 10.1.2.0/24
	// or ::1/128.
	AllowPrefixes []netip.Prefix
	// DenyPrefixes are denied although they are public. They take precedence over AllowPrefixes.
	DenyPrefixes []netip.Prefix
	// AllowPorts are allowed besides 80 and 443.
	AllowPorts []uint16

	// Timeout limits one request and one search; 0 = 25 s.
	Timeout time.Duration

	// The rest is for tests.

	// Addresses of the services; empty means the public ones.
	exaURL, tavilyURL, braveURL string
	// pageTimeout limits fetching one page, so that a slow one leaves time for the rest; 0 = 12 s.
	pageTimeout time.Duration
	// httpTimeout limits a request of the http tool for which the model sets no limit, connectTimeout connecting; 0 = 10 s.
	httpTimeout, connectTimeout time.Duration
	// maxPage limits how many bytes of a page webContent reads; 0 = 2 MiB.
	maxPage int
	// maxConcurrent limits how many guarded requests run at the same time; 0 = 16. Others wait.
	maxConcurrent int
	// resolver and ownAddresses are the system's if not set.
	resolver     *net.Resolver
	ownAddresses func() ([]net.Addr, error)
	now          func() time.Time
}

// String shows the search service but no keys.
func (c Config) String() string {
	return fmt.Sprintf("webtools.Config{provider: %q, allow: %v, deny: %v, ports: %v}",
		c.provider(), c.AllowPrefixes, c.DenyPrefixes, c.AllowPorts)
}

// GoString is [Config.String], so that %#v shows no keys either.
func (c Config) GoString() string { return c.String() }

// LogValue implements [slog.LogValuer] without the keys.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Validate returns everything that is wrong with the configuration, joined.
func (c Config) Validate() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	configured := map[string]bool{ProviderSearXNG: c.SearXNGURL != "", ProviderExa: c.ExaKey != "", ProviderTavily: c.TavilyKey != "", ProviderBrave: c.BraveKey != ""}
	if known, set := configured[c.Provider], c.Provider != ""; set && !known {
		if _, ok := configured[c.Provider]; !ok {
			wrong("search provider %q: it is not one of searxng, exa, tavily, brave", c.Provider)
		} else {
			wrong("search provider %s: its key or address is missing", c.Provider)
		}
	}
	if err := checkBase(c.SearXNGURL); err != nil {
		wrong("address of SearXNG: %w", err)
	}
	for _, key := range []struct{ name, value string }{{"Exa", c.ExaKey}, {"Tavily", c.TavilyKey}, {"Brave", c.BraveKey}} {
		if strings.ContainsFunc(key.value, func(r rune) bool { return r <= ' ' || r > '~' }) {
			wrong("key of %s: it contains characters that keys never have (a space, a line break?)", key.name)
		}
	}
	for _, p := range slices.Concat(c.AllowPrefixes, c.DenyPrefixes) {
		if p.Addr().Is4In6() {
			wrong("network %v: write it as an IPv4 network", p)
		}
	}
	return errors.Join(problems...)
}

func checkBase(value string) error {
	if value == "" {
		return nil
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return errors.New("it must be of the form https://host/path")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("it must not contain a user, a query or a fragment")
	}
	return nil
}

// provider returns the name of the search service, empty if there is none.
func (c Config) provider() string {
	switch {
	case c.Provider != "":
		return c.Provider
	case c.SearXNGURL != "":
		return ProviderSearXNG
	case c.ExaKey != "":
		return ProviderExa
	case c.TavilyKey != "":
		return ProviderTavily
	case c.BraveKey != "":
		return ProviderBrave
	default:
		return ""
	}
}

func (c Config) withDefaults() (Config, error) {
	if err := c.Validate(); err != nil {
		return Config{}, fmt.Errorf("configure web tools: %w", err)
	}
	c.exaURL = cmp.Or(c.exaURL, defaultExaURL)
	c.tavilyURL = cmp.Or(c.tavilyURL, defaultTavilyURL)
	c.braveURL = cmp.Or(c.braveURL, defaultBraveURL)
	c.Timeout, c.pageTimeout = cmp.Or(c.Timeout, defaultTimeout), cmp.Or(c.pageTimeout, defaultPageTimeout)
	c.httpTimeout, c.connectTimeout = cmp.Or(c.httpTimeout, defaultHTTPTimeout), cmp.Or(c.connectTimeout, connectTimeout)
	c.maxPage = cmp.Or(c.maxPage, defaultMaxPage)
	c.maxConcurrent = cmp.Or(c.maxConcurrent, defaultMaxConcurrent)
	c.resolver = cmp.Or(c.resolver, net.DefaultResolver)
	if c.ownAddresses == nil {
		c.ownAddresses = net.InterfaceAddrs
	}
	if c.now == nil {
		c.now = time.Now
	}
	return c, nil
}
