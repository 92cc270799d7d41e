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
	"slices"
	"testing"

	"voicebridge/llm"
)

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

// Replay returns a provider whose server answers every request with one of the adapter's exchanges, what was sent to it
// so far, and a channel that is closed when a client leaves during <<hang>>.
func (w Wire) Replay(t *testing.T, exchange string) (p llm.Provider, sent func() [][]byte, gone <-chan struct{}) {
	t.Helper()
	s := serve(t, w.exchange(t, exchange))
	sent = func() [][]byte {
		_, bodies := s.seen()
		return slices.Clone(bodies)
	}
	return w.New(t, s.URL, s.client(t)), sent, s.gone
}
