// Package wire is shared by the adapters to language models: one HTTP request whose answer is a
// stream of JSON, with limits and without retries or redirects, and failures in words for users,
// without secrets.
package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"

	"voicebridge/llm"
)

// Client sends requests to one provider's server. It is safe for concurrent use.
type Client struct {
	Failures

	http *http.Client
	form Form
}

// NewClient returns a client that sends through base, or the default transport if that is nil. It
// follows no redirects, which would pass on custom key headers, and has no timeout other than the
// request's context.
func NewClient(base *http.Client, form Form, failures Failures) *Client {
	client := http.Client{}
	if base != nil {
		client = *base
	}
	client.Timeout = 0
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{Failures: failures, http: &client, form: form}
}

// Answer interprets the events of one answer.
type Answer interface {
	// Event takes an event and returns what it has for the user now. It returns a problem if the
	// server says that the answer has failed. A field of an unexpected form must not hide the
	// others.
	Event(raw json.RawMessage) ([]llm.Delta, *Problem)
	// Over reports whether nothing more of interest will come.
	Over() bool
	// End returns the calls, the usage and the stop reason; nothing if the answer is incomplete.
	End() []llm.Delta
}

// Stream posts a request as JSON and yields what a makes of the answer; see [llm.Provider]. The
// sequence can be used once.
func (c *Client) Stream(
	ctx context.Context, address string, header http.Header, request any, a Answer,
) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		r, err := post(ctx, address, header, request)
		if err != nil {
			yield(llm.Delta{}, c.Failure(ctx, nil, err))
			return
		}
		resp, err := c.Do(r)
		if err != nil {
			yield(llm.Delta{}, err)
			return
		}
		defer resp.Body.Close()
		if !yield(llm.Delta{}, nil) { // the server has begun: some models think before they send anything
			return
		}
		var whole error // what came is no stream, but may be the answer all the same
		for s, first := NewEvents(resp.Body, c.form), true; !a.Over(); first = false {
			var event json.RawMessage
			event, err = s.Next()
			if other, ok := errors.AsType[*notStreamError](err); ok && first && other.object() {
				event, whole = valid(other.body), err
				err = nil
			}
			if err != nil {
				break
			}
			var deltas []llm.Delta
			if event != nil {
				var problem *Problem
				switch deltas, problem = a.Event(event); {
				case problem != nil && whole != nil:
					yield(llm.Delta{}, c.Failure(ctx, resp, whole))
					return
				case problem != nil:
					yield(llm.Delta{}, c.midStream(ctx, *problem))
					return
				}
			}
			if len(deltas) == 0 {
				deltas = []llm.Delta{{}} // the server is at work
			}
			for _, d := range deltas {
				if !yield(d, nil) {
					return
				}
			}
		}
		end := a.End()
		if len(end) == 0 {
			yield(llm.Delta{}, c.Failure(ctx, resp, cmp.Or(whole, err)))
			return
		}
		for _, d := range end {
			if !yield(d, nil) {
				return
			}
		}
	}
}

// Do sends a request. An answer whose status is not 2xx is an error.
func (c *Client) Do(r *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, c.Failure(r.Context(), nil, err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		// The part of an error response that arrived says more than the error that cut it off.
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
		return nil, c.Failure(r.Context(), resp, &notStreamError{body})
	}
	return resp, nil
}

// post returns a request that sends a value as JSON.
func post(ctx context.Context, address string, header http.Header, value any) (*http.Request, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("write request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, &body)
	if err != nil {
		return nil, fmt.Errorf("write request: %w", err)
	}
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	return r, nil
}

// CheckURL returns an error unless base is an absolute HTTP address.
func CheckURL(base string) error {
	u, err := url.Parse(base)
	if err != nil {
		return errors.New("parse base URL: it is not a URL") // err would quote a password
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("parse base URL: %q is not an http or https address", u.Redacted())
	}
	return nil
}

// Label returns what users call the server at base, which CheckURL accepts: its vendor if that is the vendor's own
// address, else its host.
func Label(vendor, own, base string) string {
	u, err := url.Parse(base)
	if err != nil || base == own {
		return vendor
	}
	return u.Host
}
