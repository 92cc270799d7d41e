package realtime

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// maxAnswer is the largest SDP answer that is read, in bytes. Real answers take about 1.5 KB.
	maxAnswer = 256 << 10
	// maxErrorBody is how much of an error's body is read, in bytes.
	maxErrorBody = 64 << 10
	// maxMessage is the longest message of an APIError, and maxName the longest type, code and param, in bytes.
	maxMessage = 1 << 10
	maxName    = 128

	// maxRetryAfter bounds APIError.RetryAfter.
	maxRetryAfter = 24 * time.Hour

	defaultTimeout  = 20 * time.Second
	hangupAttempts  = 3
	hangupFirstWait = 250 * time.Millisecond
)

// ErrBadAnswer means that the upstream accepted the call but its body is not an SDP answer of a sane size. The call may
// exist and cost money: if the server named its id, that is in the Call returned with the error.
var ErrBadAnswer = errors.New("upstream sent no usable SDP answer")

// Client creates and ends calls at a Realtime API. Its fields must not change while it is in use. Its methods are safe
// for concurrent use.
type Client struct {
	BaseURL string // such as https://api.openai.com/v1
	// CallsURL is the whole address of the calls route, for servers where it is not {BaseURL}/realtime/calls. Its
	// query, if any, is sent with every request.
	CallsURL string
	APIKey   string // empty for servers that need none
	// KeyHeader is the header that carries the key, such as api-key for Azure. Empty means Authorization, with Bearer
	// before the key.
	KeyHeader string
	// JSON sends the offer and the session's model as a JSON object and reads the answer from one, as LocalAI does,
	// instead of using OpenAI's form.
	JSON bool
	// DataChannel is the stream of the data channel that both sides open by themselves (rtc.Config.DataChannel); zero
	// means that the client announces its channel once connected. Only OpenAI takes it.
	DataChannel int
	// HTTP is used for the requests; nil means http.DefaultTransport. Redirects are never followed: following one could
	// create a second call.
	HTTP *http.Client
	// SafetyIdentifier is a stable hash of the user that is sent as OpenAI-Safety-Identifier; empty sends none.
	SafetyIdentifier string
	// Timeout limits one request; zero means 20 s.
	Timeout time.Duration
}

// Call is a created call.
type Call struct {
	ID       string // the last segment of Location; empty when there was none
	Location string // as the server sent it
	Answer   string // the SDP answer
}

// APIError is an unsuccessful answer of the Realtime API.
type APIError struct {
	Status  int // HTTP status
	Type    string
	Code    string
	Message string
	Param   string
	// RetryAfter is how long the server asks to wait, up to a day; zero if it did not say.
	RetryAfter time.Duration
}

// Error returns the status, the code and the message. It never includes the key.
func (e *APIError) Error() string {
	code := cmp.Or(e.Code, e.Type, http.StatusText(e.Status))
	return fmt.Sprintf("realtime API answered %d %s: %s", e.Status, code, e.Message)
}

// CreateCall sends the SDP offer and the session (a JSON object) in one request and returns the answer. It never
// retries, because each request that arrives creates a session. Errors: *APIError, ErrBadAnswer, the context's, or the
// network's. Source: POST /realtime/calls of the OpenAPI description.
func (c *Client) CreateCall(ctx context.Context, offer string, session []byte) (Call, error) {
	write := callForm
	if c.JSON {
		write = callJSON
	}
	body, contentType, err := write(offer, session)
	if err != nil {
		return Call{}, fmt.Errorf("create call: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Timeout, defaultTimeout))
	defer cancel()
	address := c.address("")
	if c.DataChannel != 0 {
		separator := "?"
		if strings.Contains(address, "?") {
			separator = "&"
		}
		address += separator + "dcid=" + strconv.Itoa(c.DataChannel)
	}
	res, err := c.Post(ctx, address, contentType, body)
	if err != nil {
		return Call{}, fmt.Errorf("create call: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return Call{}, fmt.Errorf("create call: %w", ReadAPIError(res, c.APIKey))
	}
	call := Call{Location: res.Header.Get("Location")}
	call.ID = callID(call.Location)
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if c.JSON {
		answer = answerOf(answer)
	}
	switch {
	case err != nil:
		return call, fmt.Errorf("read answer: %w", errors.Join(ErrBadAnswer, err))
	case len(answer) > maxAnswer:
		return call, fmt.Errorf("read answer of more than %d bytes: %w", maxAnswer, ErrBadAnswer)
	case !looksLikeSDP(answer):
		return call, fmt.Errorf("read answer of type %q: %w", res.Header.Get("Content-Type"), ErrBadAnswer)
	}
	call.Answer = string(answer)
	return call, nil
}

// Hangup ends a call. A call that is already gone counts as ended. Network failures and answers of 429 and 5xx are
// retried, up to three attempts in all and within ctx: ending a call twice does no harm, and one that is not ended goes
// on costing money. An empty id does nothing. Source: POST /realtime/calls/{call_id}/hangup of the OpenAPI description.
func (c *Client) Hangup(ctx context.Context, callID string) error {
	if callID == "" {
		return nil
	}
	wait := hangupFirstWait
	for attempt := 1; ; attempt++ {
		again, err := c.hangup(ctx, callID)
		if err == nil {
			return nil
		}
		if !again || attempt == hangupAttempts {
			return fmt.Errorf("hang up call %s: %w", callID, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("hang up call %s: %w", callID, errors.Join(ctx.Err(), err))
		case <-time.After(wait):
		}
		wait *= 2
	}
}

// hangup tries once; again reports whether a retry may succeed.
func (c *Client) hangup(ctx context.Context, callID string) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Timeout, defaultTimeout))
	defer cancel()
	res, err := c.Post(ctx, c.address("/"+url.PathEscape(callID)+"/hangup"), "", nil)
	if err != nil {
		return true, err
	}
	defer res.Body.Close()
	if res.StatusCode/100 == 2 || res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusGone {
		return false, nil
	}
	return res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500, ReadAPIError(res, c.APIKey)
}

// address returns the address of the calls route with below appended to its path.
func (c *Client) address(below string) string {
	if c.CallsURL == "" {
		return strings.TrimSuffix(c.BaseURL, "/") + "/realtime/calls" + below
	}
	address, query, has := strings.Cut(c.CallsURL, "?")
	address = strings.TrimSuffix(address, "/") + below
	if has {
		address += "?" + query
	}
	return address
}

// Post sends a request with the key, and follows no redirect.
func (c *Client) Post(ctx context.Context, address, contentType string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	switch {
	case c.APIKey == "":
	case c.KeyHeader == "" || strings.EqualFold(c.KeyHeader, "Authorization"):
		req.Header.Set("Authorization", "Bearer "+c.APIKey)
	default:
		req.Header.Set(c.KeyHeader, c.APIKey)
	}
	if c.SafetyIdentifier != "" {
		req.Header.Set("OpenAI-Safety-Identifier", c.SafetyIdentifier)
	}
	res, err := NoRedirects(c.HTTP).Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		e.URL, _, _ = strings.Cut(e.URL, "?") // the rest may hold a key
	}
	return res, err
}

// NoRedirects returns a copy of a client, or of the default one for nil, that follows no redirect: a key is for one
// address, and a call must be created once.
func NoRedirects(client *http.Client) *http.Client {
	own := *cmp.Or(client, &http.Client{})
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// ReadAPIError makes an APIError from a response, whatever its body. The key is cut out of it.
func ReadAPIError(res *http.Response, key string) *APIError {
	e := &APIError{Status: res.StatusCode, RetryAfter: retryAfter(res.Header.Get("Retry-After"), time.Now())}
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // part of a body is better than none
	var w struct {
		Error   Error `json:"error"`
		Message loose `json:"message"` // of API gateways such as Azure's
		Detail  loose `json:"detail"`  // of FastAPI
	}
	switch err := json.Unmarshal(body, &w); {
	case res.StatusCode/100 == 3:
		to, _, _ := strings.Cut(res.Header.Get("Location"), "?") // a query may hold a secret
		e.Message = fmt.Sprintf("it redirects to %q, which is not followed: a call must be created once", to)
	case err != nil:
		e.Message = fmt.Sprintf("the body is not a JSON error (%q)", res.Header.Get("Content-Type"))
	default:
		e.Type, e.Code = w.Error.Type, w.Error.Code
		e.Param = w.Error.Param
		e.Message = cmp.Or(w.Error.Message, string(w.Message), string(w.Detail), "it gives no reason")
	}
	e.Message = HeadOf(withoutKey(e.Message, key), maxMessage) // cut last: even half a key is a leak
	for _, name := range []*string{&e.Type, &e.Code, &e.Param} {
		*name = HeadOf(withoutKey(*name, key), maxName)
	}
	return e
}

// withoutKey cuts out the client's key and whatever looks like one.
func withoutKey(s, key string) string {
	if key != "" {
		s = strings.ReplaceAll(s, key, "[key]")
	}
	return MaskKeys(s)
}

// minSecret is from how many bytes a secret is cut out: shorter ones stand in words, and are for servers that need
// none.
const minSecret = 8

// HideSecrets cuts secrets out of what an upstream has sent.
func HideSecrets(data []byte, secrets ...string) []byte {
	for _, secret := range secrets {
		if len(secret) >= minSecret && bytes.Contains(data, []byte(secret)) {
			data = bytes.ReplaceAll(data, []byte(secret), []byte("[key]"))
		}
	}
	return data
}

// keyPattern finds API keys in an upstream's messages: OpenAI quotes part of a wrong key in its answer.
var keyPattern = regexp.MustCompile(`\b(?:sk|ek)[-_][A-Za-z0-9_*.-]{4,}`)

// MaskKeys replaces anything in s that looks like an API key, for a log or a user.
func MaskKeys(s string) string { return keyPattern.ReplaceAllString(s, "[key]") }

// retryAfter reads the header's two forms (RFC 9110, section 10.2.3), up to maxRetryAfter.
func retryAfter(header string, now time.Time) time.Duration {
	if s, err := strconv.Atoi(header); err == nil && s >= 0 {
		return time.Duration(min(s, int(maxRetryAfter.Seconds()))) * time.Second
	}
	if t, err := http.ParseTime(header); err == nil {
		return min(max(0, t.Sub(now)), maxRetryAfter)
	}
	return 0
}

func callForm(offer string, session []byte) (body []byte, contentType string, err error) {
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	for _, part := range []struct{ name, contentType, data string }{
		{"sdp", "application/sdp", offer},
		{"session", "application/json", string(session)},
	} {
		if part.data == "" {
			continue
		}
		h := textproto.MIMEHeader{}
		h.Set("Content-Disposition", `form-data; name="`+part.name+`"`)
		h.Set("Content-Type", part.contentType)
		p, _ := w.CreatePart(h) // into memory, which takes everything
		_, _ = io.WriteString(p, part.data)
	}
	_ = w.Close()
	return buf.Bytes(), w.FormDataContentType(), nil
}

// callJSON is the body that LocalAI takes. Of the session it holds only the model; session.update sends the rest.
// Source: core/http/endpoints/openai/realtime_webrtc.go of mudler/LocalAI.
func callJSON(offer string, session []byte) (body []byte, contentType string, err error) {
	var in struct {
		Model string `json:"model"`
	}
	if len(session) > 0 {
		if err := json.Unmarshal(session, &in); err != nil {
			return nil, "", err
		}
	}
	body, err = json.Marshal(map[string]string{"sdp": offer, "model": in.Model})
	return body, "application/json", err
}

// answerOf returns the SDP in a JSON object; any other body is returned as it is.
func answerOf(body []byte) []byte {
	var out struct {
		SDP string `json:"sdp"`
	}
	if json.Unmarshal(body, &out) != nil || out.SDP == "" {
		return body
	}
	return []byte(out.SDP)
}

// callID returns the last segment of a Location, which may be relative.
func callID(location string) string {
	u, err := url.Parse(location)
	if err != nil {
		return ""
	}
	id, err := url.PathUnescape(path.Base(u.EscapedPath()))
	isPath := id == "." || id == ".." || id == "/"
	if err != nil || isPath || len(id) > 256 || strings.ContainsFunc(id, unicode.IsControl) {
		return ""
	}
	return id
}

// looksLikeSDP tells an SDP answer from HTML, JSON and the like (RFC 8866,
// section 5: it begins with v=0); whether it is complete is for the peer to say.
func looksLikeSDP(b []byte) bool {
	return bytes.HasPrefix(b, []byte("v=0")) && bytes.Contains(b, []byte("\nm="))
}

// HeadOf shortens s to at most limit bytes, never inside a character.
func HeadOf(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// maxChannel is the last stream that can carry a data channel (RFC 8831, 6.4).
const maxChannel = 65534

// ErrBadChannel means that dcid is no number of a stream.
var ErrBadChannel = errors.New("dcid is not a number from 0 to 65534")

// WithChannel returns the offer of a client that names its data channel in the query of the calls route ("dcid",
// OpenAI's guide "WebRTC with WARP") instead of announcing it once connected. The offer then says the same in the
// line that RFC 8864 has for it. An empty dcid names none. Error: ErrBadChannel.
func WithChannel(offer, dcid string) (string, error) {
	if dcid == "" {
		return offer, nil
	}
	id, err := strconv.ParseUint(dcid, 10, 16)
	if err != nil || id > maxChannel {
		return "", ErrBadChannel
	}
	const section = "m=application "
	before, data, ok := strings.Cut(offer, "\n"+section)
	if !ok {
		return offer, nil
	}
	data, after, more := strings.Cut(data, "\nm=")
	if more {
		after = "m=" + after
	}
	return fmt.Sprintf("%s\n%s%s\r\na=dcmap:%d\r\n%s", before, section, strings.TrimRight(data, "\r\n"), id, after), nil
}
