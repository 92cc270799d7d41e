// Package realtime speaks the GA Realtime protocol: it decodes and builds the JSON events of the data channel, and
// calls the HTTP endpoints that create and end a call.
//
// It holds no policy and no state: its users decide what to forward, store or answer. Events of an unknown type decode
// like any other, and the original bytes are always kept, so that a relay can pass on what it does not understand.
//
// Sources: the OpenAPI description of the Realtime API (github.com/openai/openai-openapi) and the guides under
// developers.openai.com/api/docs/guides/realtime-*.
package realtime
