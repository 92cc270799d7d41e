package signin

import (
	"context"
	"crypto/subtle"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// Begun is a sign-in that has begun.
type Begun struct {
	// AuthorizeURL is where the owner's browser goes.
	AuthorizeURL string
	// Browser is for the browser that has begun it to keep, and to show to [Desk.Finish].
	Browser string
}

// Begin begins the sign-in of an owner, who will come back to the address redirect. A [RefusedError] says why that
// cannot be.
func (d *Desk) Begin(ctx context.Context, owner string, s Server, redirect string) (Begun, error) {
	at, err := d.discover(ctx, s)
	if err != nil {
		return Begun{}, err
	}
	g, _, err := d.grantOf(ctx, owner, s)
	if err != nil {
		return Begun{}, err
	}
	if g != nil && s.Scopes == nil {
		at.scopes = union(at.scopes, g.Scopes, g.Lacks)
	}
	// One that did not come back may have failed because the authorization server has forgotten us.
	again, err := d.Store.DropSignIns(ctx, owner, s.Name)
	if err != nil {
		return Begun{}, err
	}
	us, err := d.clientAt(ctx, s, at, redirect, again)
	if err != nil {
		return Begun{}, err
	}
	state, browser := oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	p := pending{
		endpoints: endpoints{
			URL: s.URL, Resource: at.resource, Client: us, Token: at.meta.TokenEndpoint,
			Revoke: at.meta.RevocationEndpoint,
		},
		Scopes:   at.scopes,
		Verifier: oauth2.GenerateVerifier(), Browser: hashed(browser),
		SaysIssuer: at.meta.AuthorizationResponseIssParameterSupported,
	}
	if _, err := d.Store.BeginSignIn(ctx, hashed(state), owner, s.Name, d.seal.close(p, aboutSignIn, owner, s.Name),
		pendingFor); err != nil {
		return Begun{}, err
	}
	there := oauth2.Config{
		ClientID: us.ID, RedirectURL: redirect, Scopes: at.scopes,
		Endpoint: oauth2.Endpoint{AuthURL: at.meta.AuthorizationEndpoint},
	}
	address := there.AuthCodeURL(state, oauth2.S256ChallengeOption(p.Verifier),
		oauth2.SetAuthURLParam("resource", at.resource))
	return Begun{address, browser}, nil
}

// clientAt returns what the authorization server knows us as: as configured, as it was registered before, or registered
// now.
func (d *Desk) clientAt(ctx context.Context, s Server, at *place, redirect string, anew bool) (client, error) {
	methods := at.meta.TokenEndpointAuthMethodsSupported
	if s.ClientID != "" {
		// the default is the header (RFC 8414, 2)
		header := s.ClientSecret != "" && !slices.Contains(methods, "client_secret_post")
		return client{
			Issuer: at.meta.Issuer, Redirect: redirect, ID: s.ClientID, Secret: s.ClientSecret, InHeader: header,
		}, nil
	}
	registered := s.Name + " at " + redirect
	sealed, err := d.Store.Client(ctx, registered)
	if err != nil {
		return client{}, err
	}
	var known client
	if !anew && sealed != "" && d.seal.open(sealed, &known, aboutClient,
		registered) == nil && known.Issuer == at.meta.Issuer && known.Redirect == redirect &&
		(known.ExpiresAt.IsZero() || known.ExpiresAt.After(d.Now().Add(pendingFor))) {
		return known, nil
	}
	if at.meta.RegistrationEndpoint == "" {
		return client{}, errNoClient(at)
	}
	us, err := d.register(ctx, s, at, redirect)
	if err != nil {
		return client{}, err
	}
	return us, d.Store.SaveClient(ctx, registered, d.seal.close(us, aboutClient, registered))
}

// register registers us at an authorization server (RFC 7591).
func (d *Desk) register(ctx context.Context, s Server, at *place, redirect string) (client, error) {
	over, _ := d.http(s)
	methods := at.meta.TokenEndpointAuthMethodsSupported
	method := "client_secret_basic"
	// a secret of a client that anybody may register proves nothing
	for _, better := range []string{"none", "client_secret_post"} {
		if slices.Contains(methods, better) {
			method = better
			break
		}
	}
	kind := "web"
	if strings.HasPrefix(redirect, "http://") {
		kind = "native" // on loopback
	}
	got, err := oauthex.RegisterClient(ctx, at.meta.RegistrationEndpoint, &oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: method,
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		ClientName: "voicebridge", Scope: strings.Join(at.scopes, " "), ApplicationType: kind,
	}, over)
	if err != nil {
		return client{}, refused("%s did not register voicebridge as a client: %s", hostOf(at.meta.Issuer), reason(err))
	}
	if got.TokenEndpointAuthMethod != "" {
		method = got.TokenEndpointAuthMethod
	}
	return client{
		Issuer: at.meta.Issuer, Redirect: redirect, ID: got.ClientID, Secret: got.ClientSecret,
		ExpiresAt: got.ClientSecretExpiresAt,
		InHeader:  got.ClientSecret != "" && method == "client_secret_basic",
	}, nil
}

// Return is what an owner's browser comes back with (RFC 6749, 4.1.2; RFC 9207).
type Return struct{ State, Code, Issuer, Error, Description string }

// Finish ends the sign-in to which a state belongs, if who is back may end it: mine reports whether its owner asks, and
// kept returns what the browser has kept for a server. It returns whose sign-in it was, and at which server, as soon as
// that is known. find returns a server by its name.
func (d *Desk) Finish(
	ctx context.Context, back Return, kept func(server string) string, mine func(owner string) bool,
	find func(name string) (Server, bool),
) (owner, name string, err error) {
	key := hashed(back.State)
	owner, name, sealed, err := d.Store.PendingSignIn(ctx, key)
	if err != nil {
		if d.NotFound(err) {
			err = ErrUnknown
		}
		return "", "", err
	}
	var p pending
	s, found := find(name)
	if d.seal.open(sealed, &p, aboutSignIn, owner, name) != nil || !found || s.URL != p.URL {
		return "", "", ErrUnknown
	}
	if !mine(owner) && subtle.ConstantTimeCompare([]byte(hashed(kept(name))), []byte(p.Browser)) != 1 {
		return "", "", ErrOther
	}
	if ended, err := d.Store.EndSignIn(ctx, key); err != nil || !ended {
		if err == nil {
			err = ErrUnknown
		}
		return "", "", err
	}
	return owner, name, d.exchange(ctx, owner, s, &p, back)
}

// exchange trades the code for tokens and saves them.
func (d *Desk) exchange(ctx context.Context, owner string, s Server, p *pending, back Return) error {
	switch {
	// Another server may have sent the browser, to get a code that is not for it.
	case back.Issuer != p.Client.Issuer && (p.SaysIssuer || back.Issuer != ""):
		return refused("the answer does not come from the authorization server that was asked")
	case back.Error != "":
		return refused("the authorization server refused: %s",
			reason(&oauthError{word(back.Error), word(back.Description)}))
	case back.Code == "":
		return refused("the authorization server sent no code")
	}
	t, err := d.token(ctx, s, &p.endpoints, url.Values{
		"grant_type": {"authorization_code"}, "code": {back.Code}, "redirect_uri": {p.Client.Redirect},
		"code_verifier": {p.Verifier},
	})
	if err != nil {
		return refused("the authorization server did not give a token: %s", reason(err))
	}
	g := grant{
		endpoints: p.endpoints, Access: t.Access, Refresh: string(t.Refresh), ExpiresAt: t.expires(d.Now()),
		Scopes: p.Scopes,
	}
	if t.Scope != "" {
		g.Scopes = strings.Fields(string(t.Scope))
	}
	return d.Store.SaveGrant(ctx, owner, s.Name, d.seal.close(g, aboutGrant, owner, s.Name))
}
