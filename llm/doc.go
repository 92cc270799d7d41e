// Package llm is what language models have in common: a request, the pieces of an
// answer, and failures in words for users. The packages below it are the models of
// one vendor each; all pass the suite in llmtest. It knows no thread and no
// database, and can be used alone.
//
// # Clients
//
// Each wire has the lightest kept client that passes the suite. Megabytes are those
// of the stripped binary, seconds those of the processor in a cold build (75 MB and
// 201 s with the vendors' clients for all three).
//
//   - OpenAI: github.com/sashabaranov/go-openai, which has no dependencies. The
//     vendor's openai-go adds 20 MB and 58 s, for one route of hundreds. Compatible
//     servers are reached through the same client.
//   - Anthropic: one POST by net/http and a stream of events, for no small client is
//     kept that can be had. The vendor's SDK adds 8.6 MB and 33 s; of it the request's
//     structs were used, and they are 70 lines here.
//   - Google: the vendor's genai. It adds 4.5 MB and 12 s, and knows the signatures of
//     thoughts, which Gemini insists on and changes often.
//   - Ollama: one POST by net/http and lines of JSON, through its own API: the size of
//     the context cannot be set through the one that is compatible with OpenAI's.
package llm
