package llmtest

import (
	"net/http"
	"testing"
	"time"

	"voicebridge/llm"
)

// Key is the providers' secret in tests.
const Key = "sk-test-51Hx0123456789abcdefghij"

// Wire is an adapter to a vendor's API.
type Wire struct {
	// New returns the provider, which sends to baseURL through client and has [Key] as its key.
	New func(t *testing.T, baseURL string, client *http.Client) llm.Provider
	// Keyless returns a provider for the vendor's own address without a key; nil if the vendor
	// needs none. The provider must not send anything.
	Keyless func(t *testing.T, client *http.Client) llm.Provider
	// Dir is the folder of the exchanges and requests; testdata if empty.
	Dir string
	// Label is what messages to users call the vendor; those about another address than its own name the host, unless Named.
	Label string
	Named bool
	// Path is where requests go, below the base URL; MODEL stands for the model.
	Path string
	// KeyHeader is the header with the key, after KeyPrefix; empty if none is sent.
	KeyHeader, KeyPrefix string
	// Without holds the exchanges that the vendor's API cannot have, each with the reason.
	Without map[string]string
	// Uncached means that the API does not count cached tokens.
	Uncached bool
	// Refuses means that the API refuses what follows an answer that its filter has stopped.
	Refuses bool
	// Answers and Failures are exchanges that only this vendor has.
	Answers  []Answer
	Failures []Failure
	// Requests are further requests by name.
	Requests map[string]llm.Request
}

// Answer is the result of a successful exchange.
type Answer struct {
	// Exchange is the name of its file.
	Exchange string
	Text     string
	// Thinks means that reasoning comes before the text.
	Thinks bool
	Calls  []Call
	// Usage is not checked if it is nil.
	Usage *Usage
	Stop  llm.StopReason
}

// Call is a call without what vendors generate. Its arguments are JSON without spaces. ID and
// Metadata are not checked if they are empty.
type Call struct{ Name, Arguments, ID, Metadata string }

// Usage is a usage without the vendor's object.
type Usage struct{ Input, Output, Cached int64 }

// Failure is the result of a failed exchange.
type Failure struct {
	// Exchange is the name of its file.
	Exchange string
	Kind     llm.ErrorKind
	// Text is what the user saw before the failure.
	Text string
	// Status is the HTTP status; 0 within a stream.
	Status int
	// After is how long the vendor asks to wait.
	After time.Duration
	// Says is part of the message to the user.
	Says string
}
