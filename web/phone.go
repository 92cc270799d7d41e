package web

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/persistence/admission"
	"voicebridge/persistence/records"
	"voicebridge/phone"
	"voicebridge/web/access"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

const (
	// kindPhone is the kind of the tokens that open streams, kindPhoned that of those that have: they are remembered,
	// so that no request of a webhook is taken again.
	kindPhone, kindPhoned = "phone", "phone_used"
	rememberCalls         = 366 * 24 * time.Hour
	maxRemembered         = 10_000
	maxNotice             = 64 << 10
)

var (
	errNoLine    = problem.NotFound("line_not_found", "There is no such telephone line.")
	errNotSigned = problem.Forbidden("forbidden", "This request is not taken.")
)

func (h phones) routes(r router) {
	r.POST("/phone/:carrier/:line", h.ring)
	r.GET("/phone/:carrier/:line", h.ring) // as some are set up
	r.POST("/phone/:carrier/:line/status", h.status)
	r.Echo.GET("/phone/:carrier/:line/:token", h.stream)
}

// line returns the line of a request, which is the owner's who is called.
func (h phones) line(c echo.Context) (phone.Carrier, *phone.Line, error) {
	line, ok := h.Phone.Lines[c.Param("line")]
	if !ok || line.Carrier != c.Param("carrier") {
		return nil, nil, errNoLine
	}
	c.Set(identityKey, access.Identity{Owner: line.Owner})
	return phone.Carriers[line.Carrier], &line, nil
}

// signed reads a request that the carrier has signed.
func (h phones) signed(c echo.Context) (_ phone.Carrier, _ *phone.Line, n phone.Notice, err error) {
	carrier, line, err := h.line(c)
	if err != nil {
		return nil, nil, n, err
	}
	r := phone.Request{Method: c.Request().Method, Header: c.Request().Header}
	if r.Body, err = input.Body(c, maxNotice, ""); err != nil {
		return nil, nil, n, err
	}
	if t, _ := input.MediaType(r.Header.Get(echo.HeaderContentType)); t == echo.MIMEApplicationForm {
		if r.Form, err = url.ParseQuery(string(r.Body)); err != nil {
			return nil, nil, n, errNotSigned
		}
	}
	r.URL, err = url.Parse(strings.TrimSuffix(h.Phone.PublicURL, "/") + c.Request().URL.RequestURI())
	if err == nil {
		err = carrier.Verify(line, &r, h.now())
	}
	if err == nil {
		n, err = carrier.Notice(&r)
	}
	if err != nil {
		h.events.refused(c, "carrier refused", err)
		return nil, nil, n, errNotSigned
	}
	return carrier, line, n, nil
}

// status takes the later notices of a carrier about a call.
func (h phones) status(c echo.Context) error {
	carrier, line, n, err := h.signed(c)
	if err != nil {
		return err
	}
	if n.ID != "" {
		return h.follow(c, carrier, line, n, false)
	}
	return h.noted(c, line, n)
}

func (h phones) noted(c echo.Context, line *phone.Line, n phone.Notice) error {
	if n.Ended {
		id := tokenID(line, streamToken(line, n.Call))
		if open := h.lines.find(id); open != nil && open.stream != nil {
			open.gone()
		}
		h.lines.leave(id)
		_, err := h.Store.Admission.UseToken(c.Request().Context(), kindPhone, kindPhoned, id, time.Time{})
		if err != nil && !errors.Is(err, persistence.ErrNotFound) {
			return err
		}
	}
	return c.NoContent(http.StatusOK)
}

// ring takes a call that comes in, for which the carrier is to open a stream.
func (h phones) ring(c echo.Context) error {
	carrier, line, n, err := h.signed(c)
	if err != nil {
		return err
	}
	switch {
	case n.Move != 0:
		return h.moved(c, carrier, line, n)
	case n.ID != "":
		return h.follow(c, carrier, line, n, true)
	case !n.Ringing:
		return h.noted(c, line, n)
	}
	call := ringing{Call: n.Call, Caller: phone.Number(n.From), Called: cmp.Or(phone.Number(n.To), line.Number)}
	return h.connect(c, carrier, line, n, call)
}

// connect has the carrier open a stream for a call.
func (h phones) connect(
	c echo.Context, carrier phone.Carrier, line *phone.Line, n phone.Notice, call ringing,
) error {
	ctx := c.Request().Context()
	token := streamToken(line, n.Call)
	id := tokenID(line, token)
	if err := h.remember(ctx, line, call, id, n.Once); err != nil {
		if errors.Is(err, errNotSigned) {
			h.events.refused(c, "carrier repeats itself", err)
		}
		return err
	}
	var reply phone.Reply
	room, err := h.room(ctx, line, call, id)
	if err != nil {
		return err
	}
	if !room && call.Out == "" { // that of a call out was counted before it was dialled
		h.Logger.Warn("telephone line is busy", "line", line.Name)
		reply, err = carrier.Refuse(ctx, line, n.Call)
		if err != nil {
			return err
		}
		return c.Blob(http.StatusOK, reply.Type, []byte(reply.Body))
	}
	reply, err = carrier.Connect(ctx, line, n, h.streamAddress(line, token))
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, reply.Type, []byte(reply.Body))
}

// moved takes the notices of a carrier about a transfer. A call that goes on with nobody here ends when its transfer
// does.
func (h phones) moved(c echo.Context, carrier phone.Carrier, line *phone.Line, n phone.Notice) (err error) {
	token := streamToken(line, n.Call)
	reply := phone.Nothing
	if open := h.lines.find(tokenID(line, token)); open != nil && open.stream != nil {
		number := open.stream.Moving()
		switch {
		case n.Move == phone.Reached:
			open.stream.Moved("")
		case n.Move == phone.Asks && number != "":
			reply = carrier.Forward(line, phone.Transfer{Call: n.Call, Number: number, Webhook: h.webhook(line)})
		case n.Move == phone.Failed && open.stream.Moved(n.Reason) && !n.Once:
			reply, err = carrier.Connect(c.Request().Context(), line, n, h.streamAddress(line, token))
		}
	}
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, reply.Type, []byte(reply.Body))
}

// follow takes the notices of a carrier about a call out, for which it is to open a stream where its answer may ask for
// one.
func (h phones) follow(
	c echo.Context, carrier phone.Carrier, line *phone.Line, n phone.Notice, mayConnect bool,
) error {
	ctx := c.Request().Context()
	d, err := h.Store.Records.Dial(ctx, line.Owner, n.ID)
	if err == nil && d.Line != line.Name {
		err = persistence.ErrNotFound
	}
	var same bool
	if err == nil {
		d, err = h.Store.Records.ChangeDial(ctx, d.Key, d.ID, func(d *records.Dial, now time.Time) (changed bool) {
			same, changed = phone.Follow(d, n, now)
			return changed
		})
	}
	if errors.Is(err, persistence.ErrNotFound) {
		h.events.refused(c, "carrier tells of an unknown call", err)
		return errNotSigned
	}
	if err != nil {
		return err
	}
	connects := n.Answered
	if h.Phone.Machine == phone.SpeakToMachine {
		connects = n.Tone || n.Person
	}
	switch {
	case n.Ended && same:
		return h.noted(c, line, n)
	case n.Ended:
	case !same, d.State == records.DialEnded: // there is one call, and it is over when that was said
		h.hangUp(ctx, carrier, line, n.Call)
	case n.Machine && h.Phone.Machine == phone.HangUpMachine:
		h.endDial(ctx, d, records.DialMachine)
		err := h.Calls.End(ctx, line.Owner, d.ID, bridge.EndMachine)
		if err != nil && !errors.Is(err, persistence.ErrNotFound) {
			return err
		}
		h.hangUp(ctx, carrier, line, n.Call)
	case mayConnect && connects:
		return h.connect(c, carrier, line, n, ringing{n.Call, d.Number, line.Number, d.ID})
	}
	return c.NoContent(http.StatusOK)
}

// remember saves the token of a call. The error is errNotSigned for a call that is known, unless it may still begin and
// its webhook asks again.
func (h phones) remember(ctx context.Context, line *phone.Line, call ringing, id string, once bool) error {
	data, err := json.Marshal(call)
	if err != nil {
		return err
	}
	known, err := h.Store.Admission.Token(ctx, kindPhone, id)
	switch {
	case err == nil && (once || h.now().Sub(known.CreatedAt) > streamWithin):
		return errNotSigned
	case !errors.Is(err, persistence.ErrNotFound):
		return err
	}
	if _, err := h.Store.Admission.Token(ctx, kindPhoned, id); err == nil {
		return errNotSigned
	}
	return h.Store.Admission.SaveToken(ctx, admission.Token{
		ID: id, Kind: kindPhone, Owner: line.Owner, Data: string(data), CreatedAt: h.now(),
		ExpiresAt: h.now().Add(rememberCalls),
	}, maxRemembered)
}

// room reports whether the line and the caller may have one more call, which takes its place.
func (h phones) room(ctx context.Context, line *phone.Line, call ringing, id string) (bool, error) {
	ofLine, ofCaller, err := h.Store.Records.LineCalls(ctx, line.Owner, line.Name, call.Caller)
	if err != nil {
		return false, err
	}
	return h.lines.enter(id, line, call, ofLine, ofCaller, h.now()), nil
}

// streamToken returns the token that opens the stream of a call.
func streamToken(line *phone.Line, call string) string {
	mac := hmac.New(sha256.New, []byte(line.Secret.Reveal()))
	mac.Write([]byte("stream of " + line.Carrier + " " + line.Name + " " + call))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// tokenID returns the name under which a token is saved.
func tokenID(line *phone.Line, token string) string {
	sum := sha256.Sum256([]byte("phone " + line.Name + " " + token))
	return hex.EncodeToString(sum[:])
}

// stream serves the stream of a call.
func (h phones) stream(c echo.Context) error {
	carrier, line, err := h.line(c)
	if err != nil {
		return err
	}
	if err := h.door.check(c); err != nil {
		return err
	}
	id := tokenID(line, c.Param("token"))
	before := h.lines.find(id)
	again := before != nil && before.stream != nil
	var call ringing
	if !again {
		used, err := h.Store.Admission.UseToken(
			c.Request().Context(), kindPhone, kindPhoned, id, h.now().Add(-streamWithin))
		if err == nil {
			err = json.Unmarshal([]byte(used.Data), &call)
		}
		if err != nil {
			h.events.refused(c, "stream refused", err)
			return errNotSigned
		}
	}
	ctx, leave, err := h.door.enter(c)
	if err != nil {
		return err
	}
	defer leave()
	conn, err := websocket.Accept(c.Response(), c.Request(),
		&websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		h.Logger.Debug("socket refused", "error", err, "request_id", requestID(c))
		return nil // Accept has answered
	}
	conn.SetReadLimit(phone.MaxMessage)
	start, err := phone.ReadStart(ctx, carrier, conn)
	switch {
	case err != nil, !again && start.Call != call.Call, again && !before.stream.Takes(start):
		h.events.refused(c, "stream refused", cmp.Or(err, phone.ErrRefused))
		_ = conn.Close(websocket.StatusPolicyViolation, "")
		if !again {
			h.lines.leave(id)
		}
	case again:
		before.stream.Attach(conn)
	default:
		h.talk(context.WithoutCancel(ctx), line, call, id, start, conn)
	}
	return nil
}
