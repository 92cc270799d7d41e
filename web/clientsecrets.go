package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/web/access"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// secretDefaultTTL is the usual lifetime of a client secret, in seconds.
const secretDefaultTTL = 600

// clientSecrets serves the routes about client secrets.
type clientSecrets struct {
	auth  *access.Authenticator
	store threadReader
	calls interface {
		ReadSession(object json.RawMessage, fixed bool) (realtime.Settings, error)
	}
	assistants *assistantFinder
	model      string // of calls, as shown in answers
	now        func() time.Time
	events     securityLog
	records    bool // calls may be recorded
}

func (h *clientSecrets) routes(r router) {
	r.POST("/v1/realtime/client_secrets", h.create, r.user)
	r.DELETE("/v1/realtime/client_secrets", h.revoke, r.user)
}

type secretRequest struct {
	threadAssistant

	ExpiresAfter *struct {
		Anchor  string `json:"anchor"`
		Seconds *int64 `json:"seconds"`
	} `json:"expires_after"`
	Session  json.RawMessage `json:"session"`
	ThreadID *string         `json:"thread_id"`
	// MayChange lists what clients may change in Session, which is otherwise fixed.
	MayChange []string `json:"client_may_change"`
	// Record has the calls recorded, or not, whatever their client asks for.
	Record *bool `json:"record"`
}

type secretAnswer struct {
	Value     string          `json:"value"`
	ExpiresAt int64           `json:"expires_at"` // Unix seconds
	Session   json.RawMessage `json:"session"`    // what calls will use of it
	ThreadID  *string         `json:"thread_id"`
}

// create issues a client secret.
func (h *clientSecrets) create(c echo.Context) error {
	var body secretRequest
	if err := input.JSON(c, &body, true); err != nil {
		return err
	}
	ttl, err := body.ttl()
	if err != nil {
		return err
	}
	secret := access.ClientSecret{Owner: identity(c).Owner, Expires: h.now().Add(ttl)}
	if secret.Session, err = sessionObject(body.Session); err != nil {
		return err
	}
	if secret.Record = body.Record; secret.Record != nil && *secret.Record && !h.records {
		return errNotRecorded
	}
	if err := body.checkMayChange(); err != nil {
		return err
	}
	// Session settings from a page are not fixed: they are requests, like any other client's.
	secret.Fixed, secret.MayChange = secret.Session != nil && identity(c).IsProgram(), body.MayChange
	shown := realtime.Settings{}
	if secret.Session != nil {
		if shown, err = h.calls.ReadSession(secret.Session, secret.Fixed); err != nil {
			return err
		}
	}
	chosen, err := h.assistants.check(c.Request().Context(), secret.Owner, body.threadAssistant)
	if err != nil {
		return err
	}
	secret.AssistantID, secret.AssistantOwner, secret.Variables = chosen.ID, &chosen.Owner, body.Variables
	if body.ThreadID != nil {
		secret.Thread, err = h.ownThread(c, secret.Owner, *body.ThreadID)
	} else {
		// The id is known from the start, so that all instances use the same thread.
		secret.Thread, secret.MakesThread = persistence.NewID(), true
	}
	if err != nil {
		return err
	}
	shown["type"], shown["object"], shown["model"] = toolkit.Encode("realtime"), toolkit.Encode("realtime.session"), toolkit.Encode(h.model)
	token, err := h.auth.Secrets.Add(c.Request().Context(), secret)
	if err != nil {
		return err
	}
	h.events.note(c, "client secret issued", secret.Owner, "expires_at", secret.Expires.UTC())
	return c.JSON(http.StatusOK, secretAnswer{Value: token, ExpiresAt: secret.Expires.Unix(), Session: toolkit.Encode(shown), ThreadID: body.ThreadID})
}

// revoke revokes one of the owner's client secrets, which is sent in the body and not in the path,
// because paths are logged.
func (h *clientSecrets) revoke(c echo.Context) error {
	var body struct {
		Value string `json:"value"`
	}
	if err := input.JSON(c, &body, false); err != nil {
		return err
	}
	err := h.auth.Secrets.Revoke(c.Request().Context(), identity(c).Owner, body.Value)
	if errors.Is(err, persistence.ErrNotFound) {
		return problem.NotFound("secret_not_found", "There is no such client secret, or it has expired.")
	}
	if err != nil {
		return err
	}
	h.events.note(c, "client secret revoked", identity(c).Owner)
	return c.NoContent(http.StatusNoContent)
}

// changeable are the parts of a fixed session that clients may be allowed to change.
var changeable = []string{"instructions", "tools", "voice"}

func (r secretRequest) checkMayChange() error {
	for _, name := range r.MayChange {
		if !slices.Contains(changeable, name) {
			return problem.BadRequest("invalid_value", "client_may_change", fmt.Sprintf("client_may_change must be a list of %s.", strings.Join(changeable, ", ")))
		}
	}
	return nil
}

func (r secretRequest) ttl() (time.Duration, error) {
	if r.ExpiresAfter == nil {
		return secretDefaultTTL * time.Second, nil
	}
	if a := r.ExpiresAfter.Anchor; a != "" && a != "created_at" {
		return 0, problem.BadRequest("invalid_value", "expires_after.anchor", "expires_after.anchor must be created_at.")
	}
	if r.ExpiresAfter.Seconds == nil {
		return secretDefaultTTL * time.Second, nil
	}
	n, limits := *r.ExpiresAfter.Seconds, realtime.SecretFields.At("expires_after.seconds")
	if float64(n) < limits.Low || float64(n) > limits.High {
		return 0, problem.BadRequest("invalid_value", "expires_after.seconds",
			fmt.Sprintf("expires_after.seconds must be from %v to %v.", limits.Low, limits.High))
	}
	return time.Duration(n) * time.Second, nil
}

// ownThread checks that the thread belongs to the owner, and returns its id.
func (h *clientSecrets) ownThread(c echo.Context, owner, id string) (string, error) {
	if !input.ValidID(id, maxThreadID) {
		return "", errNoThread
	}
	key := names{h.store}.find(c.Request().Context(), thread.Key{Owner: owner, Thread: id})
	_, err := h.store.Thread(c.Request().Context(), key)
	return key.Thread, orThread(err)
}
