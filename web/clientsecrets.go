package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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
type clientSecrets struct{ *api }

func (h clientSecrets) routes(r router) {
	route(r, "POST /v1/realtime/client_secrets", h.create)
	route(r, "DELETE /v1/realtime/client_secrets", h.revoke)
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

type newSecret struct {
	Body secretRequest `body:"64 KiB,optional"`
}

// create issues a client secret.
func (h clientSecrets) create(ctx context.Context, who caller, in newSecret) (answer secretAnswer, err error) {
	body := &in.Body
	ttl, err := body.ttl()
	if err != nil {
		return answer, err
	}
	secret := access.ClientSecret{Owner: who.Owner, Expires: h.now().Add(ttl), Record: body.Record}
	if secret.Session, err = sessionObject(body.Session); err != nil {
		return answer, err
	}
	if secret.Record != nil && *secret.Record && h.Recordings == nil {
		return answer, errNotRecorded
	}
	if err := body.checkMayChange(); err != nil {
		return answer, err
	}
	// Session settings from a page are not fixed: they are requests, like any other client's.
	secret.Fixed, secret.MayChange = secret.Session != nil && who.IsProgram(), body.MayChange
	shown := realtime.Settings{}
	if secret.Session != nil {
		if shown, err = h.Calls.ReadSession(secret.Session, secret.Fixed); err != nil {
			return answer, err
		}
	}
	chosen, err := h.checkChoice(ctx, secret.Owner, body.threadAssistant)
	if err != nil {
		return answer, err
	}
	secret.AssistantID, secret.AssistantOwner = chosen.ID, &chosen.Owner
	secret.Variables = body.Variables
	if body.ThreadID != nil {
		secret.Thread, err = h.ownThread(ctx, secret.Owner, *body.ThreadID)
	} else {
		// The id is known from the start, so that all instances use the same thread.
		secret.Thread, secret.MakesThread = persistence.NewID(), true
	}
	if err != nil {
		return answer, err
	}
	shown["type"], shown["object"] = toolkit.Encode("realtime"), toolkit.Encode("realtime.session")
	shown["model"] = toolkit.Encode(h.Upstream.Model)
	token, err := h.auth.Secrets.Add(ctx, secret)
	if err != nil {
		return answer, err
	}
	h.events.note(who, "client secret issued", "expires_at", secret.Expires.UTC())
	return secretAnswer{
		Value: token, ExpiresAt: secret.Expires.Unix(), Session: toolkit.Encode(shown), ThreadID: body.ThreadID,
	}, nil
}

type revokedSecret struct {
	Body struct {
		Value string `json:"value"`
	} `body:"64 KiB"`
}

// revoke revokes one of the owner's client secrets, which is sent in the body and not in the path,
// because paths are logged.
func (h clientSecrets) revoke(ctx context.Context, who caller, in revokedSecret) (none, error) {
	err := h.auth.Secrets.Revoke(ctx, who.Owner, in.Body.Value)
	if errors.Is(err, persistence.ErrNotFound) {
		err = problem.NotFound("secret_not_found", "There is no such client secret, or it has expired.")
	}
	if err == nil {
		h.events.note(who, "client secret revoked")
	}
	return none{}, err
}

// changeable are the parts of a fixed session that clients may be allowed to change.
var changeable = []string{"instructions", "tools", "voice"}

func (r secretRequest) checkMayChange() error {
	for _, name := range r.MayChange {
		if !slices.Contains(changeable, name) {
			return problem.Invalid("client_may_change", "client_may_change must be a list of %s.",
				strings.Join(changeable, ", "))
		}
	}
	return nil
}

func (r secretRequest) ttl() (time.Duration, error) {
	if r.ExpiresAfter == nil {
		return secretDefaultTTL * time.Second, nil
	}
	if a := r.ExpiresAfter.Anchor; a != "" && a != "created_at" {
		return 0, problem.Invalid("expires_after.anchor", "expires_after.anchor must be created_at.")
	}
	if r.ExpiresAfter.Seconds == nil {
		return secretDefaultTTL * time.Second, nil
	}
	n, limits := *r.ExpiresAfter.Seconds, realtime.SecretFields.At("expires_after.seconds")
	if float64(n) < limits.Low || float64(n) > limits.High {
		return 0, problem.Invalid("expires_after.seconds",
			"expires_after.seconds must be from %v to %v.", limits.Low, limits.High)
	}
	return time.Duration(n) * time.Second, nil
}

// ownThread checks that the thread belongs to the owner, and returns its id.
func (h clientSecrets) ownThread(ctx context.Context, owner, id string) (string, error) {
	if !input.ValidID(id, maxThreadID) {
		return "", errNoThread
	}
	key := h.meant(ctx, thread.Key{Owner: owner, Thread: id})
	_, err := h.Store.Thread(ctx, key)
	return key.Thread, orThread(err)
}

// maxSession is the size of a session object, in bytes.
const maxSession = 64 << 10

// sessionObject checks a client's session object. A missing one and null are nil.
func sessionObject(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if len(raw) > maxSession {
		return nil, problem.TooLarge("session", fmt.Sprintf("session is larger than %d bytes.", maxSession))
	}
	if !utf8.Valid(raw) || !input.IsObject(raw) {
		return nil, problem.Invalid("session", "session must be a JSON object in UTF-8.")
	}
	var head struct {
		Type json.RawMessage `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil || (len(head.Type) > 0 && string(head.Type) != `"realtime"`) {
		return nil, problem.Invalid("session.type", `session.type must be "realtime".`)
	}
	return raw, nil
}

var errNotRecorded = problem.BadRequest("recording_disabled", "record",
	"This server does not record calls: its operator has not set recording.enabled.")
