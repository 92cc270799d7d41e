package access

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
	"voicebridge/web/problem"
)

// LocalOwner owns everything if no authentication is configured.
const LocalOwner = "local"

const maxOwner = 255 // bytes

// validOwner reports whether s can be an owner: text that databases can store.
func validOwner(s string) bool {
	return s != "" && len(s) <= maxOwner && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Identity is who a request comes from.
type Identity struct {
	Owner string
	// Name is the user's name: the owner of a static token, or a JWT's claim name; empty if
	// unknown.
	Name string
	// Secret is set if the client presented a client secret.
	Secret *ClientSecret
	// Until is when the credential expires; zero for never.
	Until   time.Time
	session string // id of the page session
	program bool
	static  bool // it is one of the operator's tokens
}

// IsServer reports whether the client presented one of the operator's tokens.
func (i Identity) IsServer() bool { return i.static }

// IsProgram reports whether the client presented one of the operator's tokens or a JWT: it is an
// application's server and not a page.
func (i Identity) IsProgram() bool { return i.program }

// ClientSecret is a short-lived token with which a browser opens calls on one thread of one owner,
// several one after the other, until it expires. Expiry does not end a call, and to reconnect it or to
// hang up the secret stays good for a day.
type ClientSecret struct {
	id      string    // of what is saved
	Owner   string    `json:"-"`
	Expires time.Time `json:"-"`
	// Session is the session of calls made with the secret; may be nil.
	Session json.RawMessage `json:"session,omitempty"`
	// Fixed means that an authenticated client set the session: other clients may change only what
	// MayChange names.
	Fixed     bool     `json:"fixed,omitempty"`
	MayChange []string `json:"may_change,omitempty"`
	// Record has the calls recorded, or not, whatever their client asks for; nil leaves it to them.
	Record *bool `json:"record,omitempty"`
	// AssistantID is the assistant of its calls, with values of its variables; empty for that of the thread.
	// AssistantOwner is whose it is, empty: the operator's; nil in secrets of versions that did not save it.
	AssistantID    string            `json:"assistant_id,omitempty"`
	AssistantOwner *string           `json:"assistant_owner,omitempty"`
	Variables      map[string]string `json:"variables,omitempty"`
	// Thread is the only thread that the secret opens. A leaked secret opens no other thread of its
	// owner.
	Thread string `json:"thread"`
	// MakesThread means that the first call creates the thread.
	MakesThread bool `json:"makes_thread,omitempty"`
}

// errExpired and errSecretOver are the answers to a token and a client secret that were once valid: who
// presents them is not guessing.
var (
	errExpired    = problem.Unauthorized("This token has expired.")
	errSecretOver = problem.Unauthorized("This client secret has expired or was revoked.")
)

// isRefusal reports whether err means that a token is wrong.
func isRefusal(err error) bool {
	e, ok := errors.AsType[*problem.Error](err)
	return ok && e.Status == http.StatusUnauthorized
}
