package signin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

const (
	maxAnswer    = 1 << 20 // bytes
	maxRedirects = 3
)

// carrier carries the requests of one server's sign-ins: those to its own origin, which the operator has configured,
// directly, all others guarded.
type carrier struct {
	own     *url.URL
	headers map[string]string
	guarded http.RoundTripper
}

// own carries what goes to configured servers.
var own = http.DefaultTransport

// http returns what makes requests for a server, and the server's address.
func (d *Desk) http(s Server) (*http.Client, *url.URL) {
	u, err := url.Parse(s.URL)
	if err != nil {
		u = &url.URL{} // the configuration has parsed it before
	}
	return &http.Client{
		Transport: &carrier{u, s.Headers, d.Guarded}, CheckRedirect: checkRedirect, Timeout: requestTimeout,
	}, u
}

func (c *carrier) RoundTrip(request *http.Request) (*http.Response, error) {
	over := c.guarded
	if request.URL.Scheme == c.own.Scheme && request.URL.Host == c.own.Host {
		over = own
		request = request.Clone(request.Context())
		for key, value := range c.headers {
			request.Header.Set(key, value)
		}
	}
	response, err := over.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	_ = response.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	response.Body = io.NopCloser(bytes.NewReader(tidied(body)))
	return response, nil
}

// tidied returns the answer to a registration with its times as numbers, where they are texts or something else: the
// SDK would refuse it.
func tidied(body []byte) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields["client_id"] == nil {
		return body
	}
	for _, key := range []string{"client_id_issued_at", "client_secret_expires_at"} {
		var seconds number
		if raw := fields[key]; raw != nil && json.Unmarshal(raw, &seconds) == nil {
			fields[key] = encode(int64(seconds))
		}
	}
	return encode(fields)
}

// checkRedirect lets metadata be elsewhere, but sends nothing else to another place.
func checkRedirect(request *http.Request, before []*http.Request) error {
	switch last := before[len(before)-1]; {
	case before[0].Method != http.MethodGet:
		return http.ErrUseLastResponse
	case len(before) > maxRedirects:
		return errors.New("it redirects too often")
	case last.URL.Scheme == "https" && request.URL.Scheme != "https":
		return errors.New("it redirects from https to http")
	}
	return nil
}

// word is a text; empty if it is something else.
type word string

func (w *word) UnmarshalJSON(data []byte) error {
	_ = json.Unmarshal(data, (*string)(w)) // what is odd is not there
	return nil
}

// number is one that may be written as a text, as Microsoft's servers do; 0 if it is something else.
type number float64

func (n *number) UnmarshalJSON(data []byte) error {
	_ = json.Unmarshal(bytes.Trim(data, `" `), (*float64)(n))
	return nil
}
