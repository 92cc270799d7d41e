// Package llm is what language models have in common: a request, the pieces of an
// answer, and failures in words for users. The packages below it are the models of
// one vendor each; all pass the suite in llmtest. It knows no thread and no
// database, and can be used alone.
//
// # Clients
//
// Each wire is one POST by net/http and a stream of JSON (package wire), without a
// client of the vendor. Those were used and taken out one after the other: of each, one
// route of hundreds was called; each hid something of the stream or rewrote something of
// the request (digits of numbers, the order of a schema, raw usage), which took more
// code to get back than the wire takes. Of the stripped binary OpenAI's had 20 MB,
// Anthropic's 8.6 MB and Google's 4.5 MB; of a cold build's processor time 58, 33 and 12
// seconds. The suite in llmtest, with exchanges as servers sent them, holds what they did.
package llm
