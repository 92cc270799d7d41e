// Package signin lets owners sign in to MCP servers by OAuth 2.1, as the MCP specification says (2025-11-25,
// authorization), and keeps what they are granted: sealed, and renewed by one process at a time.
//
// What a server says about where to sign in is not trusted: all but the server's own configured origin is reached
// through the transport that [Config] names, answers are limited, and what comes back must belong to what was begun, to
// who began it and to the authorization server that was asked.
package signin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"
)

const (
	// pendingFor is how long an owner may take to sign in.
	pendingFor = 15 * time.Minute
	// requestTimeout limits each request of a sign-in or renewal.
	requestTimeout = 15 * time.Second
	// renewalFor is how long one process may take to renew a grant before another does.
	renewalFor = time.Minute
	// early is how long before its end a token is renewed.
	early = 30 * time.Second
	// lookAgain is the pause before another process's renewal is looked at again.
	lookAgain = 200 * time.Millisecond
)

// Server is an MCP server to which each owner signs in.
type Server struct {
	// Name is its configured name.
	Name string
	// URL is its address, and Headers what is sent to its origin besides tokens.
	URL     string
	Headers map[string]string
	// ClientID and ClientSecret are what its authorization server knows us as; without an id we register ourselves.
	ClientID, ClientSecret string
	// Scopes are what to ask for; nil means what the server names.
	Scopes []string
}

// NeededError is the error of a request for which the owner has to sign in first.
type NeededError struct{ Server string }

// Error says so in words that a model can pass on.
func (e *NeededError) Error() string {
	return fmt.Sprintf("the user has to sign in to %q first. Tell them: the page shows a button for it. Then try again",
		e.Server)
}

// The errors of what comes back from a sign-in.
var (
	// ErrUnknown means that no such sign-in has begun, or that it is over.
	ErrUnknown = errors.New("this sign-in is not known here, or is over: begin it again")
	// ErrOther means that another owner, or another browser, has begun it.
	ErrOther = errors.New("this sign-in was begun by somebody else, or in another browser")
)

// RefusedError says why a sign-in failed, in words for the owner.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

func refused(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// store is what the desk needs of the database; *grants.Store implements it.
type store interface { //nolint:interfacebloat // the rows of a sign-in, as the database has them
	Grant(ctx context.Context, owner, server string) (sealed string, version int64, err error)
	SaveGrant(ctx context.Context, owner, server, sealed string) error
	BeginRenewal(ctx context.Context, owner, server string, version int64, lasting time.Duration) (bool, error)
	FinishRenewal(ctx context.Context, owner, server string, version int64, sealed string) (bool, error)
	AbandonRenewal(ctx context.Context, owner, server string, version int64) error
	DeleteGrant(ctx context.Context, owner, server string, version int64) (bool, error)
	BeginSignIn(ctx context.Context, state, owner, server, sealed string, lasting time.Duration) (again bool, err error)
	PendingSignIn(ctx context.Context, state string) (owner, server, sealed string, err error)
	EndSignIn(ctx context.Context, state string) (bool, error)
	DropSignIns(ctx context.Context, owner, server string) (bool, error)
	Client(ctx context.Context, name string) (sealed string, err error)
	SaveClient(ctx context.Context, name, sealed string) error
}

// Config configures a [Desk]. All but Logger and Now is required.
type Config struct {
	Store store
	// Secret is the one that all processes of the database share.
	Secret string
	// Guarded carries the requests to addresses that servers name. It refuses those that are not allowed.
	Guarded http.RoundTripper
	// NotFound reports whether an error of the store means that there is no such thing.
	NotFound func(error) bool
	Logger   *slog.Logger     // nil = none
	Now      func() time.Time // nil = time.Now
}

// Desk is where owners sign in. It is safe for concurrent use.
type Desk struct {
	Config
	seal seal
}

// New returns a desk.
func New(c Config) (*Desk, error) {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	sealing, err := newSeal(c.Secret)
	if err != nil {
		return nil, err
	}
	return &Desk{c, sealing}, nil
}

// client is what an authorization server knows us as.
type client struct {
	Issuer    string    `json:"issuer"`
	Redirect  string    `json:"redirect"`
	ID        string    `json:"id"`
	Secret    string    `json:"secret,omitempty"`
	InHeader  bool      `json:"in_header,omitempty"` // where the secret is sent
	ExpiresAt time.Time `json:"expires_at,omitzero"` // when the secret does
}

// endpoints are what a sign-in and its grant need of an authorization server.
type endpoints struct {
	// URL is the MCP server's address when the owner signed in: a grant goes nowhere else.
	URL      string `json:"url"`
	Resource string `json:"resource"`
	Client   client `json:"client"`
	Token    string `json:"token_endpoint"`
	Revoke   string `json:"revocation_endpoint,omitempty"`
}

// pending is a sign-in that has begun.
type pending struct {
	endpoints

	Verifier string   `json:"verifier"`
	Browser  string   `json:"browser"`          // the hash of what the browser that began it knows
	Scopes   []string `json:"scopes,omitempty"` // that were asked for
	// SaysIssuer means that the authorization server says who it is when it sends the browser back (RFC 9207).
	SaysIssuer bool `json:"says_issuer,omitempty"`
}

// grant is what an owner has been granted.
type grant struct {
	endpoints

	Access    string    `json:"access"`
	Refresh   string    `json:"refresh,omitempty"`
	Scopes    []string  `json:"scopes,omitempty"`    // what was asked for, or given
	Lacks     []string  `json:"lacks,omitempty"`     // what the server has asked for since
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero: nobody said
}

// grantOf returns the owner's grant at a server and its version; nil if there is none that can be used.
func (d *Desk) grantOf(ctx context.Context, owner string, s Server) (*grant, int64, error) {
	sealed, version, err := d.Store.Grant(ctx, owner, s.Name)
	if err != nil || sealed == "" {
		return nil, 0, err
	}
	g := new(grant)
	if err := d.seal.open(sealed, g, aboutGrant, owner, s.Name); err != nil {
		d.Logger.Warn("MCP grant not readable, the owner has to sign in again; the secret may have changed",
			"server", s.Name, "owner", owner)
		return nil, version, nil //nolint:nilerr // as if there were none
	}
	if g.URL != s.URL {
		return nil, version, nil // what was granted for one place is not shown to another
	}
	return g, version, nil
}

// SignedIn reports whether the owner has a grant at a server.
func (d *Desk) SignedIn(ctx context.Context, owner string, s Server) (bool, error) {
	g, _, err := d.grantOf(ctx, owner, s)
	return g != nil, err
}

// Widen notes that the owner's grant lacks scopes for what the server was asked: the next sign-in asks for these, too.
// The error is a [NeededError], and nil if signing in would not help, as the configuration names the scopes.
func (d *Desk) Widen(ctx context.Context, owner string, s Server, scopes []string) error {
	g, version, err := d.grantOf(ctx, owner, s)
	if err != nil || s.Scopes != nil {
		return err
	}
	if g == nil || !slices.ContainsFunc(scopes, func(one string) bool { return !slices.Contains(g.Lacks, one) }) {
		return &NeededError{s.Name}
	}
	// One who renews the grant meanwhile would lose it to a change; the next refusal says it again.
	if begun, err := d.Store.BeginRenewal(ctx, owner, s.Name, version, renewalFor); err != nil || !begun {
		return errors.Join(&NeededError{s.Name}, err)
	}
	g.Lacks = union(g.Lacks, scopes)
	_, err = d.Store.FinishRenewal(ctx, owner, s.Name, version, d.seal.close(g, aboutGrant, owner, s.Name))
	return errors.Join(&NeededError{s.Name}, err)
}

// union returns the scopes that are in one of the lists, up to a limit.
func union(lists ...[]string) (all []string) {
	for _, scope := range slices.Concat(lists...) {
		if !slices.Contains(all, scope) && len(all) < maxScopes {
			all = append(all, scope)
		}
	}
	return all
}

const maxScopes = 100
