package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/web/access"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// Lifetime of a client secret, in seconds.
const (
	secretDefaultTTL = 600
	secretMinTTL     = 10
	secretMaxTTL     = 7200
)

// clientSecrets serves the routes about client secrets.
type clientSecrets struct {
	auth  *access.Authenticator
	store threadReader
	calls interface {
		CheckSession(object json.RawMessage, fixed bool) error
	}
	model  string // of calls, as shown in answers
	now    func() time.Time
	events securityLog
}

func (h *clientSecrets) routes(r router) {
	r.POST("/v1/realtime/client_secrets", h.create, r.user)
	r.DELETE("/v1/realtime/client_secrets", h.revoke, r.user)
}

type secretRequest struct {
	ExpiresAfter *struct {
		Anchor  string `json:"anchor"`
		Seconds *int64 `json:"seconds"`
	} `json:"expires_after"`
	Session  json.RawMessage `json:"session"`
	ThreadID *string         `json:"thread_id"`
	// MayChange lists what clients may change in Session, which is otherwise fixed.
	MayChange []string `json:"client_may_change"`
}

type secretAnswer struct {
	Value     string          `json:"value"`
	ExpiresAt int64           `json:"expires_at"` // Unix seconds
	Session   json.RawMessage `json:"session"`
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
	if err := body.checkMayChange(); err != nil {
		return err
	}
	// Session settings from a page are not fixed: they are requests, like any other client's.
	secret.Fixed, secret.MayChange = secret.Session != nil && identity(c).IsProgram(), body.MayChange
	if secret.Session != nil {
		if err := h.calls.CheckSession(secret.Session, secret.Fixed); err != nil {
			return err
		}
	}
	if body.ThreadID != nil {
		secret.Thread, err = h.ownThread(c, secret.Owner, *body.ThreadID)
	} else {
		// The id is known from the start, so that all instances use the same thread.
		secret.Thread, secret.MakesThread = persistence.NewID(), true
	}
	if err != nil {
		return err
	}
	shown, err := h.shownSession(secret)
	if err != nil {
		return err
	}
	token, err := h.auth.Secrets.Add(c.Request().Context(), secret)
	if err != nil {
		return err
	}
	h.events.note(c, "client secret issued", secret.Owner, "expires_at", secret.Expires.UTC())
	return c.JSON(http.StatusOK, secretAnswer{Value: token, ExpiresAt: secret.Expires.Unix(), Session: shown, ThreadID: body.ThreadID})
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
	n := *r.ExpiresAfter.Seconds
	if n < secretMinTTL || n > secretMaxTTL {
		return 0, problem.BadRequest("invalid_value", "expires_after.seconds",
			fmt.Sprintf("expires_after.seconds must be from %d to %d.", secretMinTTL, secretMaxTTL))
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

// shownSession returns the session for the answer: the parts of it that calls will use, and the
// model of this server.
func (h *clientSecrets) shownSession(secret access.ClientSecret) (json.RawMessage, error) {
	fields, err := keep(secret.Session, "audio", "tools")
	if err == nil && secret.Fixed {
		var more map[string]json.RawMessage
		more, err = keep(secret.Session, "instructions", "max_output_tokens", "output_modalities")
		maps.Copy(fields, more)
	}
	if err != nil {
		return nil, problem.BadRequest("invalid_value", "session", "session must be a JSON object.")
	}
	if fields["audio"] != nil {
		if fields["audio"], err = shownAudio(fields["audio"]); err != nil {
			return nil, problem.BadRequest("invalid_value", "session.audio", "session.audio must be an object with input and output.")
		}
	}
	if fields["tools"] != nil {
		fields["tools"] = functions(fields["tools"])
	}
	fields["type"], fields["object"], fields["model"] = toolkit.Encode("realtime"), toolkit.Encode("realtime.session"), toolkit.Encode(h.model)
	return json.Marshal(fields)
}

// functions returns those of a session's tools that calls have: tools of other types, such as remote
// MCP servers, are ignored.
func functions(tools json.RawMessage) json.RawMessage {
	var all []json.RawMessage
	_ = json.Unmarshal(tools, &all) // it was checked
	return toolkit.Encode(slices.DeleteFunc(all, func(one json.RawMessage) bool {
		var tool struct {
			Type string `json:"type"`
		}
		_ = json.Unmarshal(one, &tool)
		return tool.Type != "" && tool.Type != "function"
	}))
}

func shownAudio(raw json.RawMessage) (json.RawMessage, error) {
	audio, errAudio := keep(raw, "input", "output")
	in, errIn := keep(audio["input"], "noise_reduction", "transcription", "turn_detection")
	out, errOut := keep(audio["output"], "voice", "speed")
	if err := errors.Join(errAudio, errIn, errOut); err != nil {
		return nil, err
	}
	shown := map[string]any{}
	if audio["input"] != nil {
		shown["input"] = in
	}
	if audio["output"] != nil {
		shown["output"] = out
	}
	return json.Marshal(shown)
}

// offByNull are the fields whose null switches something off. That of others says nothing.
var offByNull = []string{"noise_reduction", "turn_detection"}

// keep returns the named fields of a JSON object; none if it is missing.
func keep(raw json.RawMessage, names ...string) (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &fields); err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(fields, func(name string, value json.RawMessage) bool {
		return !slices.Contains(names, name) || string(value) == "null" && !slices.Contains(offByNull, name)
	})
	return fields, nil
}
