// Package httptool runs tools of one's own: each call is a signed request to an address that whoever made the tool has
// named.
package httptool

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"voicebridge/toolkit"
	"voicebridge/toolkit/guard"
	"voicebridge/toolkit/webhook"
)

const (
	// MaxBody limits an answer, in bytes.
	MaxBody = 1 << 20
	// maxWords is how many characters of an answer that is an error the model reads.
	maxWords  = 1000
	userAgent = "voicebridge"
)

// Media saves pictures and sounds of results. It must be safe for concurrent use.
type Media interface {
	SaveMedia(ctx context.Context, call toolkit.Call, data []byte) (toolkit.Media, error)
}

// Caller makes the requests of tools.
type Caller struct {
	client *http.Client
	media  Media
	now    func() time.Time
}

// New returns a Caller for addresses that the rules allow. media saves pictures and sounds of results; without one they
// are failures.
func New(rules *guard.Addresses, media Media) *Caller {
	return &Caller{media: media, now: time.Now, client: &http.Client{
		Transport:     rules.RoundTripper(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Spec says what a tool is.
type Spec struct {
	toolkit.Definition

	// URL gets the arguments as a JSON body, or as a query by GET.
	URL string
	// Method is POST if it is empty.
	Method string
	// Timeout limits a call; 0: as for all tools.
	Timeout time.Duration
	// Secret signs the requests as Standard Webhooks says; one that is not set leaves them without a signature.
	Secret webhook.Secret
}

// Tool returns a tool that is run by requests.
func (c *Caller) Tool(s Spec) toolkit.Tool {
	s.Method = cmp.Or(s.Method, http.MethodPost)
	if len(s.Parameters) == 0 {
		s.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	to, err := url.Parse(s.URL)
	if err != nil {
		to = &url.URL{Host: "the tool's address"} // it was checked
	}
	return tool{c, s, to}
}

type tool struct {
	caller *Caller
	spec   Spec
	to     *url.URL
}

var (
	_ toolkit.Timeouter = tool{}
	_ toolkit.Writer    = tool{}
)

// Definition implements [toolkit.Tool].
func (t tool) Definition() toolkit.Definition { return t.spec.Definition }

// Timeout implements [toolkit.Timeouter].
func (t tool) Timeout() time.Duration { return t.spec.Timeout }

// Writes implements [toolkit.Writer]: all requests but GET write (RFC 9110, 9.2.1).
func (t tool) Writes(string) bool { return t.spec.Method != http.MethodGet }

// Call implements [toolkit.Tool]. What goes wrong is a result that the model reads.
func (t tool) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		if !yield(toolkit.Progress("Asking "+t.host()+"…", 0), nil) {
			return
		}
		result, err := t.run(ctx, call)
		if err != nil && ctx.Err() != nil {
			yield(toolkit.Chunk{}, context.Cause(ctx))
			return
		}
		if err != nil {
			result = &toolkit.Result{Error: err.Error()}
		}
		yield(toolkit.Chunk{Result: result}, nil)
	}
}

func (t tool) host() string { return t.to.Hostname() }

func (t tool) run(ctx context.Context, call toolkit.Call) (*toolkit.Result, error) {
	request, err := t.request(ctx, call)
	if err != nil {
		return nil, err
	}
	response, err := t.caller.client.Do(request)
	if err != nil {
		return nil, t.unreachable(err)
	}
	defer func() { _ = response.Body.Close() }() // what it says comes too late to matter
	body, err := io.ReadAll(io.LimitReader(response.Body, MaxBody+1))
	switch {
	case len(body) > MaxBody:
		return nil, fmt.Errorf("%s answered with more than %d bytes", t.host(), MaxBody)
	case err != nil:
		return nil, fmt.Errorf("%s broke off its answer", t.host())
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return nil, fmt.Errorf("%s answered with a redirect (%d), which is not followed", t.host(), response.StatusCode)
	case response.StatusCode < 200 || response.StatusCode > 299:
		said := fmt.Sprintf("%s answered %d: %s", t.host(), response.StatusCode, toolkit.Line(string(body), maxWords))
		return nil, errors.New(strings.TrimSuffix(said, ": "))
	}
	return t.result(ctx, call, response.Header.Get("Content-Type"), body)
}

// unreachable returns why there is no answer, without what a refused name resolves to.
func (t tool) unreachable(err error) error {
	if refused, ok := errors.AsType[*guard.Refusal](err); ok {
		return refused
	}
	if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && timeout.Timeout() {
		return fmt.Errorf("%s did not answer in time", t.host())
	}
	return fmt.Errorf("%s cannot be reached", t.host())
}

func (t tool) request(ctx context.Context, call toolkit.Call) (*http.Request, error) {
	to := *t.to
	body := []byte(cmp.Or(strings.TrimSpace(call.Arguments), "{}"))
	if t.spec.Method == http.MethodGet {
		query, err := query(to.Query(), body)
		if err != nil {
			return nil, err
		}
		to.RawQuery, body = query.Encode(), nil
	}
	request, err := http.NewRequestWithContext(ctx, t.spec.Method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the tool's address is no URL")
	}
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set("Accept", "application/json, text/*, image/*;q=0.9, audio/*;q=0.9")
	if len(body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	// Whose call it is, percent-encoded: the receiver may have many users.
	for name, value := range map[string]string{
		"Voicebridge-Owner": call.Owner, "Voicebridge-Thread-Id": call.ThreadID, "Voicebridge-Call-Id": call.CallID,
	} {
		if value != "" {
			request.Header.Set(name, url.PathEscape(value))
		}
	}
	if t.spec.Secret.IsSet() {
		t.spec.Secret.Sign(request.Header, messageID(call), t.caller.now(), body)
	}
	return request, nil
}

// messageID names a call in its signature. The model's id may have what does not fit there.
func messageID(call toolkit.Call) string {
	sum := sha256.Sum256([]byte(call.ThreadID + "\n" + call.ID))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// query adds arguments to a query: texts as they are, lists of texts and numbers as several, everything else as JSON.
func query(values url.Values, arguments []byte) (url.Values, error) {
	decoder := json.NewDecoder(bytes.NewReader(arguments))
	decoder.UseNumber()
	var named map[string]any
	if err := decoder.Decode(&named); err != nil {
		return nil, errors.New("the arguments are not a JSON object")
	}
	for name, value := range named {
		values.Del(name)
		list, ok := value.([]any)
		if !ok || slices.ContainsFunc(list, func(v any) bool { _, text := plain(v); return !text }) {
			list = []any{value}
		}
		for _, v := range list {
			text, ok := plain(v)
			if !ok {
				text = string(toolkit.Encode(v))
			}
			values.Add(name, text)
		}
	}
	return values, nil
}

func plain(value any) (text string, ok bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return fmt.Sprint(v), true
	default:
		return "", false
	}
}

// result returns what an answer is: JSON as it is, text as text, pictures and sounds saved with the thread.
func (t tool) result(ctx context.Context, call toolkit.Call, contentType string, body []byte) (*toolkit.Result, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return &toolkit.Result{Output: json.RawMessage(`{"ok":true}`)}, nil
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind, _, _ = mime.ParseMediaType(http.DetectContentType(body))
	}
	switch {
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		if !json.Valid(body) {
			return nil, fmt.Errorf("%s answered with what is not valid JSON", t.host())
		}
		return &toolkit.Result{Output: body}, nil
	case strings.HasPrefix(kind, "image/"), strings.HasPrefix(kind, "audio/"):
		return t.media(ctx, call, body)
	case strings.HasPrefix(kind, "text/") && utf8.Valid(body) && !bytes.ContainsRune(body, 0):
		text := string(body)
		return &toolkit.Result{Output: content(map[string]any{"type": "text", "text": text}), Model: text}, nil
	default:
		return nil, fmt.Errorf("%s answered with %s, which is neither JSON, text in UTF-8, a picture nor a sound",
			t.host(), toolkit.Cut(cmp.Or(kind, "bytes of no type"), 100))
	}
}

func (t tool) media(ctx context.Context, call toolkit.Call, body []byte) (*toolkit.Result, error) {
	if t.caller.media == nil {
		return nil, fmt.Errorf("%s answered with a picture or a sound, which cannot be kept here", t.host())
	}
	saved, err := t.caller.media.SaveMedia(ctx, call, body)
	if err != nil {
		return nil, fmt.Errorf("%s answered with a picture or a sound that cannot be kept", t.host())
	}
	kind, _, _ := strings.Cut(saved.MediaType, "/")
	piece := struct {
		toolkit.Media

		Type string `json:"type"`
	}{saved, kind}
	return &toolkit.Result{Output: content(piece), Model: saved.Word(kind)}, nil
}

// content is a result in the form of MCP's tools, which the page shows.
func content(piece any) json.RawMessage {
	return toolkit.Encode(map[string]any{"content": []any{piece}})
}
