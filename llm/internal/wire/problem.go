package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"voicebridge/llm"
)

// maxQuote is how much of a server's message a user gets to see, in runes.
const maxQuote = 300

// minSecret is the length in bytes from which a key is masked. Servers that need no key are often
// given a word, which is not secret and may occur in their answers.
const minSecret = 8

// Problem is an error as reported by a server.
type Problem struct {
	// Status and Header are those of the HTTP answer; Status is 0 within a stream.
	Status int
	Header http.Header
	// Message, Type and Code are the server's fields of these names.
	Message, Type, Code, Param string
	// Details are the further objects of Google's errors.
	Details []json.RawMessage
	// Texts are all texts of the error, wherever they are in it.
	Texts string
}

// ParseProblem reads the error objects of the known servers: {"error":{"message","type","code"}},
// {"error":"…"}, {"message","type","code"}, {"detail":"…"}, and the first of an array of these. If
// the body is plain text, or has its texts elsewhere, these are the message.
func ParseProblem(body []byte) Problem {
	body = bytes.TrimSpace(valid(body))
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var outer struct {
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
	}
	if text := word(body); text != "" {
		return Problem{Message: text}
	}
	if json.Unmarshal(body, &outer) != nil {
		if len(body) > 0 && !bytes.ContainsAny(body[:1], "<{[") {
			return Problem{Message: string(body)}
		}
		return Problem{}
	}
	inner := body
	switch {
	case len(outer.Error) > 0:
		inner = outer.Error
	case len(outer.Detail) > 0:
		inner = outer.Detail
	}
	var text string
	if json.Unmarshal(inner, &text) == nil {
		return Problem{Message: text}
	}
	var fields struct {
		Message json.RawMessage   `json:"message"`
		Type    json.RawMessage   `json:"type"`
		Code    json.RawMessage   `json:"code"`
		Param   json.RawMessage   `json:"param"`
		Status  json.RawMessage   `json:"status"`
		Details []json.RawMessage `json:"details"`

		Metadata struct {
			Reasons []json.RawMessage `json:"reasons"`
		} `json:"metadata"`
	}
	// A field of an unexpected form must not hide the others.
	_ = json.Unmarshal(inner, &fields)
	p := Problem{
		Message: word(fields.Message), Type: word(fields.Type), Code: word(fields.Code), Param: word(fields.Param),
		Details: fields.Details, Texts: texts(body),
	}
	if p.Message == "" { // FastAPI's list of fields, Mistral's object
		p.Message = cmp.Or(compound(fields.Message, outer.Detail), p.Texts)
	}
	p.Type = cmp.Or(p.Type, word(fields.Status)) // Google's
	if len(fields.Metadata.Reasons) > 0 {        // OpenRouter's, whose code is the status
		p.Type = "content_policy_violation"
	}
	return p
}

// compound returns the first JSON object or array as text.
func compound(values ...json.RawMessage) string {
	for _, raw := range values {
		var short bytes.Buffer
		if len(raw) > 0 && (raw[0] == '{' || raw[0] == '[') && json.Compact(&short, raw) == nil {
			return short.String()
		}
	}
	return ""
}

// word returns a JSON string or number as text.
func word(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var number json.Number
	if json.Unmarshal(raw, &number) == nil {
		return number.String()
	}
	return ""
}

// KindOfStatus returns what an HTTP status alone says; 0 means an error within a stream.
func KindOfStatus(status int) llm.ErrorKind {
	switch {
	case status == 0:
		return llm.KindUnavailable
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		return llm.KindAuth
	case status == http.StatusPaymentRequired:
		return llm.KindQuota
	case status == http.StatusTooManyRequests:
		return llm.KindRate
	case status == http.StatusRequestEntityTooLarge:
		return llm.KindTooLong
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return llm.KindTimeout
	case status == http.StatusConflict, status == http.StatusTooEarly, status >= http.StatusInternalServerError:
		return llm.KindOverloaded
	default:
		return llm.KindBadRequest
	}
}

// Failures makes the errors of one provider.
type Failures struct {
	// Provider is the provider's name in records, Label the one for users.
	Provider, Label string
	// Kind classifies a problem.
	Kind func(Problem) llm.ErrorKind
	// Secrets are never shown.
	Secrets []string
}

// midStream returns the error for a problem that the server reports in the middle of its answer.
func (f Failures) midStream(ctx context.Context, p Problem) error {
	if ctx.Err() != nil {
		return f.cancelled(ctx)
	}
	return f.Problem(p)
}

// Failure returns the error for a request without a complete answer; resp is what came, nil if
// nothing did.
func (f Failures) Failure(ctx context.Context, resp *http.Response, err error) error {
	if ctx.Err() != nil {
		return f.cancelled(ctx)
	}
	if other, ok := errors.AsType[*notStreamError](err); ok {
		p := ParseProblem(other.body)
		if p.Header = resp.Header; resp.StatusCode/100 != 2 || p.Message == "" {
			p.Status = resp.StatusCode // otherwise the server reported it after the answer had begun
		}
		e := f.Problem(p)
		if e.Err == nil {
			e.Err = other
		}
		return e
	}
	var timeout net.Error
	switch {
	case errors.Is(err, ErrTooLarge):
		return f.fail(llm.KindBadRequest, f.Label+" sent more than this server accepts, and the answer was stopped.",
			err)
	case errors.Is(err, errMalformed):
		return f.fail(llm.KindUnavailable, f.Label+" sent something unreadable, and the answer was cut off.", err)
	case resp != nil:
		return f.fail(llm.KindUnavailable, "The answer from "+f.Label+" broke off.", err)
	case errors.As(err, &timeout) && timeout.Timeout():
		return f.fail(llm.KindTimeout, f.Label+" did not answer in time.", err)
	default:
		return f.fail(llm.KindUnavailable,
			f.Label+" cannot be reached. Check the network and the address in the settings.", err)
	}
}

// cancelled returns the error of a request whose context has ended: a timeout if its deadline has
// passed or that is the cause, else the context's own error with its cause.
func (f Failures) cancelled(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(cause, context.DeadlineExceeded) {
		return &llm.Error{
			Kind: llm.KindTimeout, Provider: f.Provider, Message: f.Label + " did not answer in time.", Err: cause,
		}
	}
	if errors.Is(cause, err) {
		return fmt.Errorf("stream answer of %s: %w", f.Provider, cause)
	}
	return fmt.Errorf("stream answer of %s: %w: %w", f.Provider, err, cause)
}

// Problem returns the error for what the server said.
func (f Failures) Problem(p Problem) *llm.Error {
	said := f.mask(p.said())
	e := f.fail(kindOfWords(f.Kind(p), p.Status, said), "", nil)
	e.Status, e.Param = p.Status, p.Param
	e.Said = said
	e.RetryAfter = retryAfter(p, time.Now())
	e.Message = f.words(e.Kind, p)
	if p.Message != "" {
		e.Err = errors.New(f.mask(p.Message))
	}
	return e
}

// NoKey returns a sequence with the error of a provider that has no key.
func (f Failures) NoKey() iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		yield(llm.Delta{}, f.fail(llm.KindAuth, "There is no key for "+f.Label+". Add one to the settings.", nil))
	}
}

// fail returns an error without err in its chain, which may contain the request with its keys.
func (f Failures) fail(kind llm.ErrorKind, message string, err error) *llm.Error {
	e := &llm.Error{Kind: kind, Provider: f.Provider, Message: message}
	if err != nil {
		e.Err = errors.New(f.mask(err.Error()))
	}
	return e
}

// words returns what a user is told about a problem.
func (f Failures) words(kind llm.ErrorKind, p Problem) string {
	switch kind {
	case llm.KindAuth:
		if p.Status == http.StatusForbidden {
			return f.quote(f.Label+" does not allow this with the current key", p)
		}
		return f.Label + " refuses the key. Check the key in the settings."
	case llm.KindQuota:
		return "The credit or quota at " + f.Label + " is used up. Check the plan and the billing there."
	case llm.KindRate:
		return f.Label + " has received more requests than it allows. Wait a moment, then try again."
	case llm.KindTooLong:
		return "The conversation is too long for this model of " + f.Label +
			". Start a new one, or choose a model with a larger context."
	case llm.KindOverloaded:
		return f.Label + " is overloaded or not working at the moment. Try again later."
	case llm.KindTimeout:
		return f.Label + " did not answer in time."
	case llm.KindUnavailable:
		return "The answer from " + f.Label + " broke off."
	case llm.KindBadRequest, llm.KindRefused:
	}
	switch {
	case p.Status/100 == 2:
		return f.quote("The server that answered is not "+f.Label+": check the address in the settings", p)
	case p.Status/100 == 3:
		return f.Label + " has moved: check the address in the settings."
	case p.Status == http.StatusNotFound:
		return f.quote(f.Label+" does not know this model or address", p)
	}
	return f.quote(f.Label+" does not accept the request", p)
}

// quote puts the server's message after ours.
func (f Failures) quote(text string, p Problem) string {
	if quote := Quote(f.mask(p.Message)); quote != "" {
		return text + ": " + quote
	}
	return text + "."
}

// Quote returns as much of a server's words as a user gets to see.
func Quote(text string) string {
	quote := strings.Join(strings.Fields(text), " ")
	if runes := []rune(quote); len(runes) > maxQuote {
		quote = string(runes[:maxQuote]) + "…"
	}
	return quote
}

// mask removes secrets from a text.
func (f Failures) mask(text string) string {
	for _, secret := range f.Secrets {
		if len(secret) >= minSecret {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// retryAfter returns how long the server asks to wait, from the header Retry-After (RFC 9110,
// section 10.2.3) or retry-after-ms, or Google's RetryInfo.
func retryAfter(p Problem, now time.Time) time.Duration {
	if d, ok := number(p.Header.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	after := p.Header.Get("Retry-After")
	if d, ok := number(after, time.Second); ok {
		return d
	}
	if at, err := http.ParseTime(after); err == nil {
		return max(0, at.Sub(now))
	}
	for _, detail := range p.Details {
		var info struct {
			RetryDelay string `json:"retryDelay"`
		}
		if json.Unmarshal(detail, &info) != nil {
			continue
		}
		if d, err := time.ParseDuration(info.RetryDelay); err == nil && d > 0 {
			return d
		}
	}
	return 0
}

// number reads a duration given as a number of units; more than a day counts as a day.
func number(text string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(n) || n < 0 {
		return 0, false
	}
	const day = float64(24 * time.Hour)
	return time.Duration(min(n*float64(unit), day)), true
}

// said returns all that the server says, in lower case.
func (p Problem) said() string {
	all := strings.Join([]string{p.Param, p.Code, p.Type, cmp.Or(p.Texts, p.Message)}, " ")
	words := strings.Join(strings.Fields(strings.ToLower(all)), " ")
	return strings.ToValidUTF8(words[:min(len(words), maxSaid)], "")
}
