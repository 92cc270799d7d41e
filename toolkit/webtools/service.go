package webtools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"voicebridge/toolkit"
)

// maxServiceBody limits the answer of a search service.
const maxServiceBody = 4 << 20

// service talks to one search service. Its address is the operator's, so it may be private; this
// client never contacts any other, since it follows no redirects.
type service struct {
	label  string // for people
	base   *url.URL
	key    string
	client *http.Client
}

func newService(label, base, key string) service {
	u, err := url.Parse(strings.TrimSuffix(base, "/"))
	if err != nil {
		u = &url.URL{} // Validate has parsed it before
	}
	return service{label: label, base: u, key: key, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{ // no Proxy: searches go to the service and nowhere else
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    connectTimeout,
			MaxResponseHeaderBytes: maxResponseHeader,
			MaxIdleConnsPerHost:    4,
			IdleConnTimeout:        30 * time.Second,
		},
	}}
}

func (s service) name() string { return s.label }

// errRefused is wrapped when a service answers 401 or 403.
var errRefused = errors.New("access refused")

// get asks with a query and reads the JSON of the answer.
func (s service) get(ctx context.Context, path string, values url.Values, header http.Header, into any) error {
	address := s.base.String() + path + "?" + values.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return refuse("the search could not be sent to %s", s.label)
	}
	req.Header = header
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", userAgent)
	resp, err := s.client.Do(req)
	if err != nil {
		return explain(err, s.label)
	}
	defer resp.Body.Close()
	data, more, err := readUpTo(resp.Body, maxServiceBody)
	if err != nil {
		return explain(err, s.label)
	}
	if resp.StatusCode != http.StatusOK {
		return s.refused(resp, data)
	}
	if more {
		return refuse("the answer of %s is longer than %d bytes", s.label, maxServiceBody)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return &failure{"the answer of " + s.label + " is not the JSON that was expected", err}
	}
	return nil
}

// refused explains an answer other than 200.
func (s service) refused(resp *http.Response, data []byte) error {
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &failure{
			fmt.Sprintf("%s refused access (%d); the operator must check its settings", s.label, resp.StatusCode),
			errRefused,
		}
	case http.StatusTooManyRequests:
		return refuse("%s has had too many searches (429); wait before the next one", s.label)
	case http.StatusPaymentRequired:
		return refuse("the account at %s is used up (%d)", s.label, resp.StatusCode)
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return refuse("%s redirects (%d) instead of answering; the operator must set its final address", s.label,
			resp.StatusCode)
	}
	answer := toolkit.First(plainLine(plainText(string(data))), 200)
	if s.key != "" {
		answer = strings.ReplaceAll(answer, s.key, "…")
	}
	return refuse("%s answered %d: %s", s.label, resp.StatusCode, answer)
}
