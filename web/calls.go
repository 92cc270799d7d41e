package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/web/access"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// calls serves the routes about calls.
type calls struct{ *api }

func (h calls) routes(r router) {
	r.POST("/v1", notHere)
	r.POST("/v1/realtime", notHere) // where the beta of the API had them
	r.POST("/v1/realtime/calls", h.start, r.userOrSecret)
	r.POST("/v1/realtime/calls/:call_id/reconnect", h.reconnect, r.ofCall)
	r.POST("/v1/realtime/calls/:call_id/hangup", h.hangUp, r.ofCall)
}

// Limits on a request that sets up a call, in bytes.
const (
	maxSDP = 64 << 10
	// maxParts limits a multipart body with both parts and their headers.
	maxParts = maxSDP + maxSession + 8<<10
)

// offer is what a client sends to set up a call.
type offer struct {
	sdp     string
	session json.RawMessage
}

// notHere tells a client whose base URL is incomplete where calls are set up.
func notHere(echo.Context) error {
	return problem.NotFound("not_found", "Calls are set up by POST /v1/realtime/calls. A client that takes the "+
		"whole address, as OpenAI's JavaScript SDK does, needs it with this path: https://HOST/v1/realtime/calls.")
}

// start answers an SDP offer with a live call (POST /v1/realtime/calls of the Realtime API, in both
// its forms).
func (h calls) start(c echo.Context) error {
	if err := h.limits.SetUp(c.Request().Context(), c.RealIP()); err != nil {
		h.Metrics.refused(err)
		return err
	}
	o, err := readOffer(c)
	if err != nil {
		h.Metrics.refused(err)
		return err
	}
	started, err := h.setUp(c, bridge.Start{Offer: o.sdp, Session: o.session})
	if err != nil {
		return err
	}
	return c.Blob(http.StatusCreated, "application/sdp", []byte(started.Answer))
}

// setUp starts a call, which the headers of the answer name.
func (h calls) setUp(c echo.Context, start bridge.Start) (bridge.Started, error) {
	started, err := h.startFor(c, start)
	if err != nil {
		h.Metrics.refused(err)
		return bridge.Started{}, err
	}
	h.Metrics.callsStarted.Inc()
	nameCall(c, started.CallID, started.ThreadID)
	return started, nil
}

// nameCall names a call and its thread in the headers of the answer.
func nameCall(c echo.Context, callID, threadID string) {
	header := c.Response().Header()
	header.Set(echo.HeaderLocation, "/v1/realtime/calls/"+url.PathEscape(callID))
	header.Set(headerThreadID, threadID)
}

func (h calls) startFor(c echo.Context, start bridge.Start) (bridge.Started, error) {
	threadID := c.QueryParam("thread_id")
	if threadID != "" && !input.ValidID(threadID, maxThreadID) {
		return bridge.Started{}, errNoThread
	}
	takeover, err := input.Bool(c, "takeover")
	if err != nil {
		return bridge.Started{}, err
	}
	if start.Record, err = h.wantsRecording(c); err != nil {
		return bridge.Started{}, err
	}
	who, ctx := identity(c), c.Request().Context()
	if threadID != "" {
		threadID = h.meant(ctx, thread.Key{Owner: who.Owner, Thread: threadID}).Thread
	}
	start.Owner, start.User = who.Owner, who.Name
	start.ThreadID, start.Takeover = threadID, takeover
	start.Upstream = c.QueryParam("upstream")
	if start.Assistant, err = h.ofCall(ctx, who, c.QueryParam("assistant_id")); err != nil {
		return bridge.Started{}, err
	}
	if who.Secret == nil {
		return h.begin(ctx, start)
	}
	return h.beginWithSecret(ctx, start, who.Secret)
}

// wantsRecording reports whether a client asks for its call to be recorded.
func (h calls) wantsRecording(c echo.Context) (bool, error) {
	wanted, err := input.Bool(c, "record")
	if err == nil && wanted && h.Recordings == nil {
		return false, errNotRecorded
	}
	return wanted, err
}

// beginWithSecret restricts the call to the secret's thread and gives it the secret's session: what
// the application's server fixed, its page cannot change.
func (h calls) beginWithSecret(
	ctx context.Context, start bridge.Start, secret *access.ClientSecret,
) (bridge.Started, error) {
	if start.ThreadID != "" && start.ThreadID != secret.Thread {
		return bridge.Started{}, problem.NotFound("thread_not_found", "This client secret is not for that thread.")
	}
	start.ThreadID, start.Variables = secret.Thread, secret.Variables
	if secret.Record != nil {
		start.Record = *secret.Record
	}
	if secret.Session != nil {
		start.Session, start.Fixed = secret.Session, secret.Fixed
		start.MayChange = secret.MayChange
	}
	if !secret.MakesThread {
		return h.open(ctx, start, secret)
	}
	// It makes its thread once: if that was deleted, nothing brings it back.
	if made, err := h.auth.Secrets.HasOpened(ctx, secret); err != nil || made {
		if err != nil {
			return bridge.Started{}, err
		}
		return h.open(ctx, start, secret)
	}
	key := thread.Key{Owner: start.Owner, Thread: secret.Thread}
	if _, err := h.Store.Thread(ctx, key); errors.Is(err, persistence.ErrNotFound) {
		if err := h.limits.Thread(ctx, key.Owner); err != nil {
			return bridge.Started{}, err
		}
	}
	made, err := h.Store.EnsureThread(ctx, key)
	if err != nil {
		return bridge.Started{}, orThread(err)
	}
	started, err := h.open(ctx, start, secret)
	if err != nil && made && classify(err).Code != string(bridge.CodeCallActive) {
		err = errors.Join(err, h.removeUnused(context.WithoutCancel(ctx), key))
	}
	return started, err
}

// open starts the call, for which the secret stays good.
func (h calls) open(ctx context.Context, start bridge.Start, secret *access.ClientSecret) (bridge.Started, error) {
	started, err := h.begin(ctx, start)
	if err != nil {
		return bridge.Started{}, err
	}
	if err := h.auth.Secrets.Opened(ctx, secret, started.CallID); err != nil {
		return bridge.Started{}, errors.Join(err,
			h.Calls.Hangup(context.WithoutCancel(ctx), start.Owner, started.CallID))
	}
	return started, nil
}

// begin starts the call within the limits.
func (h calls) begin(ctx context.Context, start bridge.Start) (bridge.Started, error) {
	room := h.limits.Room
	if start.ThreadID == "" {
		room = h.limits.Thread
	}
	if err := room(ctx, start.Owner); err != nil {
		return bridge.Started{}, err
	}
	start.OwnerCalls, start.Calls = h.limits.Calls()
	started, err := h.Calls.Start(ctx, start)
	return started, orThread(err)
}

// reconnect connects a browser to a live call again: the same one, perhaps from another network, or
// another one of the same owner.
func (h calls) reconnect(c echo.Context) error {
	id, err := h.callOf(c)
	if err != nil {
		return err
	}
	if err := h.limits.SetUp(c.Request().Context(), c.RealIP()); err != nil {
		return err
	}
	o, err := readOffer(c)
	if err != nil {
		return err
	}
	answer, err := h.Calls.Reconnect(c.Request().Context(), identity(c).Owner, id, o.sdp)
	if err != nil {
		return orCall(err)
	}
	return c.Blob(http.StatusOK, "application/sdp", []byte(answer))
}

// hangUp ends one of the owner's calls.
func (h calls) hangUp(c echo.Context) error {
	if pass, passed := c.Get(passKey).(access.Pass); passed && pass.Why != "" {
		key := thread.Key{Owner: pass.Owner, Thread: *pass.Thread}
		err := h.Calls.GiveUp(c.Request().Context(), key, c.Param("call_id"), pass.Why == whyTakeover)
		if err != nil {
			return orCall(err)
		}
		return c.NoContent(http.StatusOK)
	}
	id, err := h.callOf(c)
	if err != nil {
		return err
	}
	err = h.Calls.Hangup(c.Request().Context(), identity(c).Owner, id)
	if err != nil && !(wasClosed(c) && errors.Is(err, persistence.ErrNotFound)) {
		return orCall(err)
	}
	return c.NoContent(http.StatusOK)
}

var errNoCall = problem.NotFound("call_not_found", "There is no such call.")

func orCall(err error) error {
	if classify(err).Status == http.StatusNotFound {
		return errNoCall
	}
	return err
}

// callOf returns the call that a request is about. A client secret is only for calls on its own
// thread.
func (h calls) callOf(c echo.Context) (id string, err error) {
	return h.callNamed(c, c.Param("call_id"))
}

func (h calls) callNamed(c echo.Context, id string) (string, error) {
	who := identity(c)
	if !input.ValidID(id, maxCallID) {
		return "", errNoCall
	}
	if who.Secret != nil {
		live, err := h.Chat.LiveCall(c.Request().Context(), thread.Key{Owner: who.Owner, Thread: who.Secret.Thread})
		if err != nil {
			return "", err
		}
		if live != id {
			return "", errNoCall
		}
	}
	return id, nil
}

// readOffer reads a request for a call: its body, and the stream of its data channel if the query names one.
func readOffer(c echo.Context) (offer, error) {
	o, err := readOfferBody(c)
	if err != nil {
		return offer{}, err
	}
	if o.sdp, err = realtime.WithChannel(o.sdp, c.QueryParam("dcid")); err != nil {
		return offer{}, problem.Invalid("dcid", "The data channel's id must be a number from 0 to 65534.")
	}
	return o, nil
}

// readOfferBody reads the body of a call: a bare SDP offer, or a form with the parts sdp and session.
func readOfferBody(c echo.Context) (offer, error) {
	t, params := input.MediaType(c.Request().Header.Get(echo.HeaderContentType))
	switch t {
	case "application/sdp":
		body, err := input.Body(c, maxSDP, "sdp")
		if err != nil {
			return offer{}, err
		}
		if len(body) == 0 {
			return offer{}, problem.BadRequest("bad_sdp", "sdp", "The SDP offer is empty.")
		}
		return offer{sdp: string(body)}, nil
	case echo.MIMEMultipartForm:
		return readOfferForm(c, params["boundary"])
	default:
		return offer{}, problem.UnsupportedMedia("Send the offer as application/sdp, or as multipart/form-data " +
			"with the parts sdp and session.")
	}
}

func readOfferForm(c echo.Context, boundary string) (offer, error) {
	if boundary == "" {
		return offer{}, problem.BadRequest("bad_body", "", "The multipart body has no boundary.")
	}
	if err := input.Hold(c, maxParts); err != nil {
		return offer{}, err
	}
	body := http.MaxBytesReader(nil, c.Request().Body, maxParts)
	r := multipart.NewReader(body, boundary)
	var o offer
	seen := map[string]bool{}
	for {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return offer{}, input.BodyError(err)
		}
		name := part.FormName()
		if seen[name] {
			return offer{}, problem.BadRequest("bad_body", name, "The multipart body has a part twice.")
		}
		seen[name] = true
		if err := o.readPart(part, name); err != nil {
			return offer{}, err
		}
	}
	// What follows the last part says nothing, but the body has to end.
	if _, err := io.Copy(io.Discard, body); err != nil {
		return offer{}, input.BodyError(err)
	}
	input.BodyComplete(c)
	if o.sdp == "" {
		return offer{}, problem.BadRequest("bad_sdp", "sdp", "The multipart body has no sdp part, or an empty one.")
	}
	return o, nil
}

// readPart reads one part of the form. Unknown parts are ignored.
func (o *offer) readPart(part *multipart.Part, name string) error {
	switch name {
	case "sdp":
		body, err := readPartBody(part, maxSDP, name)
		if err != nil {
			return err
		}
		o.sdp = string(body)
	case "session":
		body, err := readPartBody(part, maxSession, name)
		if err != nil {
			return err
		}
		if o.session, err = sessionObject(body); err != nil {
			return err
		}
	}
	return nil
}

func readPartBody(part *multipart.Part, limit int64, name string) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(part, limit+1))
	if int64(len(body)) > limit {
		return nil, problem.TooLarge(name, fmt.Sprintf("The part %s is larger than %d bytes.", name, limit))
	}
	if err != nil {
		return nil, input.BodyError(err)
	}
	return body, nil
}
