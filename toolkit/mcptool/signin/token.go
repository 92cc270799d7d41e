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
	"time"

	"github.com/cenkalti/backoff/v5"
)

// tokens is what a token endpoint gives (RFC 6749, 5.1).
type tokens struct {
	oauthError

	Access  string `json:"access_token"`
	Type    word   `json:"token_type"`
	Refresh word   `json:"refresh_token"`
	Scope   word   `json:"scope"`
	Lasting number `json:"expires_in"`
}

// expires returns when the access token does, zero if that was not said.
func (t *tokens) expires(now time.Time) time.Time {
	const longest = 10 * 365 * 24 * time.Hour
	if t.Lasting <= 0 {
		return time.Time{}
	}
	return now.Add(time.Duration(min(float64(t.Lasting), longest.Seconds()) * float64(time.Second))).Round(time.Second)
}

// oauthError is an error of an authorization server (RFC 6749, 5.2).
type oauthError struct {
	Code        word `json:"error"`
	Description word `json:"error_description"`
}

func (e *oauthError) Error() string {
	if e.Description == "" {
		return string(e.Code)
	}
	return string(e.Code + ": " + e.Description)
}

// final are the errors after which the same request will never succeed.
var final = []string{"invalid_grant", "invalid_client", "unauthorized_client"}

const maxToken = 16 << 10 // bytes

// token asks a token endpoint. The parameter resource says what the token is for (RFC 8707).
func (d *Desk) token(ctx context.Context, s Server, at *endpoints, form url.Values) (*tokens, error) {
	form.Set("resource", at.Resource)
	response, err := d.post(ctx, s, at, at.Token, form)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var t tokens
	err = json.NewDecoder(response.Body).Decode(&t)
	switch failed := response.StatusCode/100 != 2; {
	case t.Code != "" && (failed || t.Access == ""): // GitHub answers 200
		return nil, &t.oauthError
	case failed:
		return nil, fmt.Errorf("HTTP %d", response.StatusCode)
	case err != nil:
		return nil, errors.New("the token endpoint's answer is not the JSON that was expected")
	case t.Access == "" || len(t.Access) > maxToken || len(t.Refresh) > maxToken ||
		strings.ContainsFunc(t.Access, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("the token endpoint gave no token that can be used")
	case t.Type != "" && !strings.EqualFold(string(t.Type), "bearer"): // Microsoft's may give none
		return nil, fmt.Errorf("the token endpoint gave a token of the type %.40q, not Bearer", t.Type)
	}
	return &t, nil
}

// post sends a form as the client that the authorization server knows.
func (d *Desk) post(
	ctx context.Context, s Server, at *endpoints, address string, form url.Values,
) (*http.Response, error) {
	over, _ := d.http(s)
	us := at.Client
	if !us.InHeader {
		form.Set("client_id", us.ID)
		if us.Secret != "" {
			form.Set("client_secret", us.Secret)
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("the address of the token endpoint is malformed")
	}
	if us.InHeader {
		request.SetBasicAuth(url.QueryEscape(us.ID), url.QueryEscape(us.Secret)) // RFC 6749, 2.3.1
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	return over.Do(request)
}

// Token returns an access token of the owner for a server, but not the refused one, if that is not empty: then, and
// when its end is near, the grant is renewed. The error is a [NeededError] if the owner has to sign in.
func (d *Desk) Token(ctx context.Context, owner string, s Server, refused string) (string, error) {
	for {
		g, version, err := d.grantOf(ctx, owner, s)
		if err != nil {
			return "", err
		}
		if g == nil {
			return "", &NeededError{s.Name}
		}
		left := g.ExpiresAt.Sub(d.Now())
		valid := g.Access != refused && (g.ExpiresAt.IsZero() || left > 0)
		if valid && (g.ExpiresAt.IsZero() || left > early) {
			return g.Access, nil
		}
		if g.Refresh == "" {
			if valid {
				return g.Access, nil
			}
			_, err := d.Store.DeleteGrant(ctx, owner, s.Name, version)
			return "", errors.Join(&NeededError{s.Name}, err)
		}
		access, err := d.renew(ctx, owner, s, g, version)
		switch _, needed := errors.AsType[*NeededError](err); {
		case access != "":
			return access, nil
		case valid && err != nil && !needed:
			return g.Access, nil // it lasts a little longer, and so may what is in the way
		case err != nil:
			return "", err
		}
		select { // another process is renewing it, or has done so
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// renew renews a grant, unless another process does. Then, and if the grant has changed meanwhile, it returns nothing.
//
// A server that gives a new refresh token with each renewal takes the second use of an old one for a theft, and ends
// the grant. So one process renews it at a time, and once it has asked it does not give up before the answer is saved,
// whatever happens to the call.
func (d *Desk) renew(ctx context.Context, owner string, s Server, g *grant, version int64) (access string, err error) {
	begun, err := d.Store.BeginRenewal(ctx, owner, s.Name, version, renewalFor)
	if err != nil || !begun {
		return "", err
	}
	ctx = context.WithoutCancel(ctx)
	t, err := d.token(ctx, s, &g.endpoints, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}})
	if err != nil {
		if e, ok := errors.AsType[*oauthError](err); ok && slices.Contains(final, string(e.Code)) {
			d.Logger.Info("MCP grant is over, the owner has to sign in again", "server", s.Name, "owner", owner,
				"error", string(e.Code))
			_, err := d.Store.DeleteGrant(ctx, owner, s.Name, version)
			return "", errors.Join(&NeededError{s.Name}, err)
		}
		return "", errors.Join(fmt.Errorf("renew the sign-in at %q: %s", s.Name, reason(err)),
			d.Store.AbandonRenewal(ctx, owner, s.Name, version))
	}
	next := *g
	next.Access, next.ExpiresAt = t.Access, t.expires(d.Now())
	if t.Refresh != "" {
		next.Refresh = string(t.Refresh)
	}
	sealed := d.seal.close(next, aboutGrant, owner, s.Name)
	// What is not saved now is lost, with the whole grant.
	saved, err := backoff.Retry(ctx, func() (bool, error) {
		return d.Store.FinishRenewal(ctx, owner, s.Name, version, sealed)
	}, backoff.WithMaxElapsedTime(renewalFor-2*requestTimeout))
	switch {
	case err != nil:
		d.Logger.Error("renewed MCP grant not saved, the owner may have to sign in again", "server", s.Name,
			"owner", owner, "error", err)
		return next.Access, nil
	case !saved: // the owner has given it back meanwhile
		d.revoke(ctx, s, &next)
		return "", nil
	}
	return next.Access, nil
}

// revoke tells the authorization server that a grant is no longer wanted (RFC 7009), if it wants to know.
func (d *Desk) revoke(ctx context.Context, s Server, g *grant) {
	if g.Revoke == "" {
		return
	}
	ctx = context.WithoutCancel(ctx)
	for hint, token := range map[string]string{"refresh_token": g.Refresh, "access_token": g.Access} {
		if token == "" {
			continue
		}
		response, err := d.post(ctx, s, &g.endpoints, g.Revoke, url.Values{"token": {token}, "token_type_hint": {hint}})
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK {
				err = fmt.Errorf("HTTP %d", response.StatusCode)
			}
		}
		if err != nil {
			d.Logger.Warn("MCP grant not revoked", "server", s.Name, "token", hint, "error", reason(err))
		}
	}
}

// Forget gives back what an owner was granted at a server. It reports whether there was anything. That the server did
// not take it back is only logged: it is gone here.
func (d *Desk) Forget(ctx context.Context, owner string, s Server) (bool, error) {
	g, _, err := d.grantOf(ctx, owner, s)
	if err != nil {
		return false, err
	}
	begun, err := d.Store.DropSignIns(ctx, owner, s.Name)
	if err != nil {
		return false, err
	}
	had, err := d.Store.DeleteGrant(ctx, owner, s.Name, 0)
	if err != nil {
		return false, err
	}
	if g != nil {
		d.revoke(ctx, s, g)
	}
	return had || begun, nil
}
