// Package llmtest holds the tests that every [llm.Provider] passes.
//
// An adapter to a vendor's API has a folder of wire exchanges, written by hand from the vendor's
// documentation, and calls [Run]: the suite serves them from a local HTTP server and checks what
// the provider makes of them, and what it sent. A provider without a wire calls [Behaviour] alone.
//
// An exchange is a file NAME.http in the adapter's testdata/exchanges: an HTTP status line,
// headers, an empty line, a body. In the body, <<long N>> is a text of N bytes and <<XX>> the byte
// with that hexadecimal number; <<cut>> ends it by breaking the connection, <<hang>> by waiting
// until the client has gone.
package llmtest

import (
	"net/http"
	"testing"

	"voicebridge/llm"
)

// Key is the providers' secret in tests.
const Key = "sk-test-51Hx0123456789abcdefghij"

// Wire is an adapter to a vendor's API.
type Wire struct {
	// New returns the provider, which sends to baseURL through client and has
	// [Key] as its key.
	New func(t *testing.T, baseURL string, client *http.Client) llm.Provider
	// Keyless returns a provider for the vendor's own address without a key; nil if the vendor
	// needs none. The provider must not send anything.
	Keyless func(t *testing.T, client *http.Client) llm.Provider
	// Label is the provider's name in messages to users.
	Label string
	// Path is where requests go, below the base URL; MODEL stands for the model.
	Path string
	// KeyHeader is the header with the key, after KeyPrefix; empty if none is sent.
	KeyHeader, KeyPrefix string
	// Without names the exchanges that the vendor's API cannot have, with reasons.
	Without map[string]string
	// Uncached means that the API does not count cached tokens.
	Uncached bool
	// Answers and Failures are exchanges that only this vendor has.
	Answers  []Answer
	Failures []Failure
	// Requests are further requests by name.
	Requests map[string]llm.Request
}

// Run tests an adapter. It looks for testdata in the working directory, the adapter's package.
func Run(t *testing.T, w Wire) {
	t.Helper()
	t.Run("answers", w.answers)
	t.Run("failures", w.failures)
	t.Run("ends", w.ends)
	t.Run("requests", w.requests)
	t.Run("behaviour", func(t *testing.T) {
		Behaviour(t, func(t *testing.T) llm.Provider {
			s := serve(t, w.exchange(t, "text"))
			return w.New(t, s.URL, s.client(t))
		})
	})
}
