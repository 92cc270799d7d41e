package config

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/web"
	"voicebridge/web/access"
)

// Auth is how callers prove who they are.
func (c *Config) Auth() access.Auth {
	return access.Auth{Tokens: c.Secrets.Tokens, JWTSecret: c.Secrets.JWTSecret, JWKSURL: c.JWTJWKSURL,
		JWTIssuer: c.JWTIssuer, JWTAudience: c.JWTAudience, JWTMayClaim: c.JWTMayClaim, Secret: c.Secrets.Signing}
}

// ImageQuota is how many bytes the images of one owner may have; 0, for the one local user, is no limit.
func (c *Config) ImageQuota() int64 {
	if !c.Auth().Required() {
		return 0
	}
	return int64(c.Limits.ImageMBPerOwner) << 20
}

// Proxies are the networks whose word on where a request comes from is believed.
func (c *Config) Proxies() []netip.Prefix {
	out, _ := prefixes(c.TrustedProxies) // checked by validate
	return out
}

// Driver returns which upstream is used: openai or simulator.
func (c *Config) Driver() string {
	switch {
	case c.Upstream != "":
		return c.Upstream
	case c.VoiceKey().IsSet():
		return UpstreamOpenAI
	default:
		return UpstreamSimulator
	}
}

// VoiceKey is the key for voice calls: their own, or that of text.
func (c *Config) VoiceKey() access.Secret {
	if c.Secrets.RealtimeKey.IsSet() {
		return c.Secrets.RealtimeKey
	}
	return c.Secrets.OpenAIKey
}

// CallsURL is the address of the calls route.
func (c *Config) CallsURL() string {
	return cmp.Or(c.Realtime.URL, strings.TrimSuffix(c.OpenAIBaseURL, "/")+"/realtime/calls")
}

// Object is the turn detection as an object of the Realtime API; null is push to talk.
func (t TurnDetection) Object() string {
	if t.Type == PushToTalk {
		return "null"
	}
	raw, _ := json.Marshal(realtime.TurnDetection{ // has no value that cannot be written
		Type: t.Type, Threshold: t.Threshold, PrefixPaddingMS: t.PrefixPaddingMS, SilenceDurationMS: t.SilenceDurationMS,
		IdleTimeoutMS: t.IdleTimeoutMS, Eagerness: t.Eagerness, CreateResponse: t.CreateResponse, InterruptResponse: t.InterruptResponse,
	})
	return string(raw)
}

// NoiseObject is the noise reduction as an object of the Realtime API; empty where
// nothing was said.
func (r Realtime) NoiseObject() string {
	if r.NoiseReduction == "" {
		return ""
	}
	return fmt.Sprintf(`{"type":%q}`, r.NoiseReduction)
}

// TURNServers are the TURN servers with a password for one owner, which ends some time
// after now; none when they share no secret with us. The owner is not told to them.
//
// Source: draft-uberti-behave-turn-rest-00; static-auth-secret of coturn.
func (c *Config) TURNServers(owner string, now time.Time) []web.ICEServer {
	if len(c.TURN.URLs) == 0 {
		return nil
	}
	tag := sha256.Sum256([]byte(owner))
	ends := now.Add(time.Duration(c.TURN.TTLMinutes) * time.Minute).Unix()
	username := fmt.Sprintf("%d:%x", ends, tag[:6])
	mac := hmac.New(sha1.New, []byte(c.Secrets.TURNSecret.Reveal()))
	mac.Write([]byte(username))
	password := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return []web.ICEServer{{URLs: c.TURN.URLs, Username: username, Credential: access.NewSecret(password)}}
}

// Loopback reports whether only this machine can reach the server.
func (c *Config) Loopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	return err == nil && IsLoopback(host)
}

// On reports whether the server speaks https itself.
func (t *TLS) On() bool { return t.CertFile != "" || len(t.ACME.Domains) > 0 }

// MetricsAddress is the address of the operators' port: without a host it is on loopback.
func (c *Config) MetricsAddress() string {
	if strings.HasPrefix(c.Metrics.Listen, ":") {
		return "127.0.0.1" + c.Metrics.Listen
	}
	return c.Metrics.Listen
}

// IsLoopback reports whether a host is this machine, by its name or address.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// prefixes reads addresses and networks.
func prefixes(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	var problems []error
	for _, text := range list {
		if addr, err := netip.ParseAddr(text); err == nil {
			out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("%q is not an address or a network", text))
			continue
		}
		out = append(out, p)
	}
	return out, errors.Join(problems...)
}

// Slog is the level in the terms of the logger.
func (c *Log) Slog() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		return slog.LevelInfo
	}
	return level
}
