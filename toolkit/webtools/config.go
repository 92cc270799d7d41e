package webtools

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"
)

// Names of the search services, as in [Config.Provider].
const (
	ProviderSearXNG = "searxng"
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

	defaultBraveURL = "https://api.search.brave.com"
)

const (
	maxBody   = 256 << 10                               // bytes of an answer that the http tool reads
	userAgent = "Mozilla/5.0 (compatible; voicebridge)" // unless the model sets one
)

// Config configures the tools. The zero value is useful: the guarded tools with the strictest
// rules, and no search.
type Config struct {
	// The service that searches. Empty: the first that has its key or address, if any.
	Provider string `yaml:"search" enum:",searxng,brave"`
	// A SearXNG server, such as http://localhost:8888. It may be private: searches go there, requests of a model never
	// do. Neither they nor hooks use HTTP_PROXY.
	SearXNGURL string `yaml:"searxng_url" format:"url" env:"VOICEBRIDGE_SEARXNG_URL"`
	// Addresses or networks that tools may reach although they are not public, such as 10.1.2.0/24 or ::1/128.
	AllowPrefixes []netip.Prefix `yaml:"allow_networks"`
	// Those that they may not reach although they are public. They take precedence over allow_networks.
	DenyPrefixes []netip.Prefix `yaml:"deny_networks"`
	// Besides 80 and 443.
	AllowPorts []int `yaml:"allow_ports" min:"1" max:"65535"`

	// BraveKey is sent to Brave and appears nowhere else, neither in results nor in errors.
	BraveKey string `yaml:"-"`

	// Timeout limits one request and one search; 0 = 25 s.
	Timeout time.Duration `yaml:"-"`

	// The rest is for tests.

	// braveURL is the address of Brave; empty means the public one.
	braveURL string
	// pageTimeout limits fetching one page, so that a slow one leaves time for the rest; 0 = 12 s.
	pageTimeout time.Duration
	// httpTimeout limits a request of the http tool for which the model sets no limit, connectTimeout connecting; 0 =
	// 10 s.
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

// provider returns the name of the search service, empty if there is none.
func (c Config) provider() string {
	switch {
	case c.Provider != "":
		return c.Provider
	case c.SearXNGURL != "":
		return ProviderSearXNG
	case c.BraveKey != "":
		return ProviderBrave
	default:
		return ""
	}
}

func (c Config) withDefaults() Config {
	c.braveURL = cmp.Or(c.braveURL, defaultBraveURL)
	c.Timeout, c.pageTimeout = cmp.Or(c.Timeout, defaultTimeout), cmp.Or(c.pageTimeout, defaultPageTimeout)
	c.httpTimeout, c.connectTimeout = cmp.Or(c.httpTimeout,
		defaultHTTPTimeout), cmp.Or(c.connectTimeout, connectTimeout)
	c.maxPage = cmp.Or(c.maxPage, defaultMaxPage)
	c.maxConcurrent = cmp.Or(c.maxConcurrent, defaultMaxConcurrent)
	c.resolver = cmp.Or(c.resolver, net.DefaultResolver)
	if c.ownAddresses == nil {
		c.ownAddresses = net.InterfaceAddrs
	}
	if c.now == nil {
		c.now = time.Now
	}
	return c
}
