package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"voicebridge/toolkit"
)

// place is where the owners of a server sign in.
type place struct {
	resource string // what the tokens are for (RFC 8707)
	scopes   []string
	meta     *oauthex.AuthServerMeta
}

// Check finds out where owners sign in to a server, and returns the issuer. The error says what is missing.
func (d *Desk) Check(ctx context.Context, s Server) (issuer string, err error) {
	p, err := d.discover(ctx, s)
	if err != nil {
		return "", err
	}
	if s.ClientID == "" && p.meta.RegistrationEndpoint == "" {
		return "", errNoClient(p)
	}
	return p.meta.Issuer, nil
}

func errNoClient(p *place) error {
	return refused("%s registers no clients by itself: register voicebridge there, and give the server's entry in "+
		"mcp.json \"oauth\": {\"clientId\": …}", p.meta.Issuer)
}

// discover asks the server where to sign in (RFC 9728), and there how (RFC 8414, or OpenID Connect Discovery).
func (d *Desk) discover(ctx context.Context, s Server) (*place, error) {
	over, own := d.http(s)
	named, scopes, err := challenge(ctx, over, s.URL)
	if err != nil {
		return nil, refused("%s cannot be reached: %s", hostOf(s.URL), reason(err))
	}
	about, err := resource(ctx, over, own, named)
	if err != nil {
		return nil, err
	}
	if len(scopes) == 0 {
		scopes = about.ScopesSupported
	}
	if s.Scopes != nil {
		scopes = s.Scopes
	}
	issuer := about.AuthorizationServers[0]
	meta, err := auth.GetAuthServerMetadata(ctx, issuer, over)
	switch {
	case err != nil:
		return nil, refused("what the authorization server %s says of itself cannot be used: %s", hostOf(issuer),
			reason(err))
	case meta == nil:
		return nil, refused("the authorization server %s does not say how to sign in: it has no metadata (RFC 8414)",
			hostOf(issuer))
	case meta.AuthorizationEndpoint == "" || meta.TokenEndpoint == "":
		return nil, refused("the authorization server %s names no endpoints for a sign-in", hostOf(issuer))
	case !slices.Contains(meta.CodeChallengeMethodsSupported, "S256"):
		return nil, refused("the authorization server %s does not support PKCE with S256", hostOf(issuer))
	}
	if slices.Contains(meta.ScopesSupported, "offline_access") && !slices.Contains(scopes, "offline_access") {
		scopes = append(slices.Clone(scopes), "offline_access") // without it some give no refresh token
	}
	return &place{about.Resource, scopes, meta}, nil
}

// challenge asks the server without a token, and returns where its metadata is and what to ask for, as far as it says
// so.
func challenge(ctx context.Context, over *http.Client, address string) (metadata string, scopes []string, err error) {
	body := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, body)
	if err != nil {
		return "", nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	response, err := over.Do(request)
	if err != nil {
		return "", nil, err
	}
	_ = response.Body.Close()
	challenges, err := oauthex.ParseWWWAuthenticate(response.Header.Values("WWW-Authenticate"))
	if err != nil {
		return "", nil, nil //nolint:nilerr // the well-known addresses remain
	}
	for _, c := range challenges {
		if c.Scheme == "bearer" {
			return c.Params["resource_metadata"], strings.Fields(c.Params["scope"]), nil
		}
	}
	return "", nil, nil
}

// resource reads the metadata of the server as a resource, where it names them or else at the well-known addresses. One
// without any is its own authorization server, as before the specification of 2025-06-18.
func resource(
	ctx context.Context, over *http.Client, u *url.URL, named string,
) (*oauthex.ProtectedResourceMetadata, error) {
	origin := url.URL{Scheme: u.Scheme, Host: u.Host}
	wellKnown := origin.String() + "/.well-known/oauth-protected-resource"
	var failure error
	for _, address := range []string{named, wellKnown + strings.TrimRight(u.EscapedPath(), "/"), wellKnown} {
		if address == "" {
			continue
		}
		meta := new(oauthex.ProtectedResourceMetadata)
		found, err := fetch(ctx, over, address, meta)
		switch {
		case err != nil && failure == nil:
			failure = refused("the metadata of the server cannot be read from %s: %s", hostOf(address), reason(err))
			fallthrough
		case err != nil, !found:
			continue
		}
		if !covers(meta.Resource, u) {
			return nil, refused("the server's metadata is about another resource, %.200q", meta.Resource)
		}
		if len(meta.AuthorizationServers) == 0 {
			return nil, refused("the server's metadata names no authorization server")
		}
		return meta, nil
	}
	if failure != nil {
		return nil, failure
	}
	return &oauthex.ProtectedResourceMetadata{
		Resource: u.String(), AuthorizationServers: []string{origin.String()},
	}, nil
}

// covers reports whether a resource is the one at an address, or contains it: many servers name their origin alone.
func covers(resource string, u *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.Scheme != u.Scheme || r.Host != u.Host || r.User != nil || r.Fragment != "" {
		return false
	}
	path := strings.TrimRight(r.Path, "/")
	return path == strings.TrimRight(u.Path, "/") || strings.HasPrefix(u.Path, path+"/")
}

// fetch reads a JSON document; found is false if there is none.
func fetch(ctx context.Context, over *http.Client, address string, into any) (found bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return false, errors.New("the address is malformed")
	}
	request.Header.Set("Accept", "application/json")
	response, err := over.Do(request)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode >= 400 && response.StatusCode < 500:
		return false, nil
	case response.StatusCode != http.StatusOK:
		return false, fmt.Errorf("HTTP %d", response.StatusCode)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return false, errors.New("it is not the JSON that was expected")
	}
	return true, nil
}

// hostOf returns the host of an address, to name it in errors.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "it"
	}
	return toolkit.Cut(u.Host, 100)
}

// reason returns the words of an error on one line, without the address of a request, which may contain a secret.
func reason(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return toolkit.Line(err.Error(), 300)
}
