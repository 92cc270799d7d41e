// Package llm defines what language models have in common: a request, the pieces of an answer, and
// failures in words for users. Each package below it implements one vendor's models; all pass the
// suite in llmtest. [Ask] sees an answer through: it tries again, and gives up on silence. The package
// knows nothing of threads or databases, and can be used alone.
//
// # Clients
//
// Each wire protocol is one POST with net/http and a stream of JSON (package wire), without the
// vendor's client library. Those libraries were used at first and removed one by one: only one of
// their hundreds of routes was called, and each hid part of the stream or rewrote part of the
// request (digits of numbers, the order of a schema, raw usage), which took more code to undo than
// the protocol itself takes. In the stripped binary openai-go took 20 MB and Anthropic's 8.6 MB, in a
// cold build 58 and 33 seconds of processor time; genai and go-openai, the last to go, together 2.3 MB
// and 20 seconds (49.8 to 47.5 MB, 121 to 101 s). The suite in llmtest, with exchanges as servers
// send them, checks that nothing was lost.
package llm
