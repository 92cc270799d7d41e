// Package llm defines what language models have in common: a request, the pieces of an answer, and
// failures in words for users. Each package below it implements one vendor's models; all pass the
// suite in llmtest. It knows nothing of threads or databases, and can be used alone.
//
// # Clients
//
// Each wire protocol is one POST with net/http and a stream of JSON (package wire), without the
// vendor's client library. Those libraries were used at first and removed one by one: only one of
// their hundreds of routes was called, and each hid part of the stream or rewrote part of the
// request (digits of numbers, the order of a schema, raw usage), which took more code to undo than
// the protocol itself takes. In the stripped binary OpenAI's took 20 MB, Anthropic's 8.6 MB and
// Google's 4.5 MB; in a cold build 58, 33 and 12 seconds of processor time. The suite in llmtest,
// with exchanges as servers send them, checks that nothing was lost.
package llm
