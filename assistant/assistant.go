// Package assistant says what an assistant is: a named set of what is otherwise the server's settings. Its fields are
// declared once, as those of [Assistant]: what is read from the file of settings and from clients, and the schema in
// the API's description, follow from them. Like package thread it imports nothing of this program.
package assistant

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"time"
)

// Assistant is what answers in a thread. What is missing in it is as in the server's settings, so the zero value is the
// server as it is set up.
//
// A field's tags say what its values may be, as package schema has it, and doc what it means.
type Assistant struct {
	ID           string            `json:"id" max:"64" format:"id" doc:"Made from the name if it is not given, and fixed from then on"`
	Name         string            `json:"name" min:"1" max:"200" doc:"What people call it"`
	Description  string            `json:"description,omitempty" max:"2000" doc:"For people who choose one"`
	Instructions string            `json:"instructions,omitempty" max:"32768" doc:"What the model is told, in place of the server's text. {{date}}, {{time}}, {{user}} and the names of variables in double braces are replaced"`
	Greeting     string            `json:"greeting,omitempty" max:"4096" doc:"What the model says first in a call on an empty thread. Variables are replaced"`
	Variables    map[string]string `json:"variables,omitempty" items:"64" format:"variable" doc:"Names and default texts. A thread may have other values"`

	Voice   Voice   `json:"voice,omitzero" doc:"Of calls"`
	Text    Text    `json:"text,omitzero" doc:"Of typed messages"`
	Tools   Tools   `json:"tools,omitzero" doc:"Names of tools, and patterns such as files__*"`
	History History `json:"history,omitzero" doc:"How much of a thread models see. Those of a shared assistant only lower the server's for others who use it"`
	Limits  Limits  `json:"limits,omitzero" doc:"Of calls. Those of an owner's assistant only tighten the server's"`

	Fillers      Fillers      `json:"fillers,omitzero" doc:"What is said in a call while a tool takes long"`
	MCPServers   []string     `json:"mcp_servers,omitzero" items:"64" min:"1" max:"200" format:"line" doc:"The MCP servers whose tools it has; an empty list: none"`
	HTTPTools    []HTTPTool   `json:"http_tools,omitempty" items:"32" doc:"Tools that the server runs by a request to an address"`
	Interruption Interruption `json:"interruption,omitzero" doc:"What speech must have to interrupt an answer in a call"`
	Keyterms     []string     `json:"keyterms,omitzero" items:"100" min:"1" format:"keyterm" doc:"Names and words that the transcription of calls is to know, each of up to 64 characters; an empty list: none"`

	EndCall bool `json:"end_call,omitempty" doc:"Whether the model may end calls, by the tool end_call: what it is saying is heard to its end"`

	Transfers map[string]Transfer `json:"transfers,omitempty" items:"32" format:"name" doc:"Whom the model may connect the caller of a telephone call with, by names that it reads, with the tool transfer_call; not with those of another owner's assistant"`

	RecordingNotice string `json:"recording_notice,omitempty" max:"4096" doc:"What is said, to its end, before anything of a call is recorded. Variables are replaced"`
	MaskKeys        bool   `json:"mask_keys,omitempty" doc:"Whether the keys that callers press on a telephone are told to the model alone, and saved as DTMF: ****"`

	Recording     *bool           `json:"recording,omitempty" doc:"Whether calls are recorded, where the server permits it; not those of others who use it"`
	RetentionDays *int            `json:"retention_days,omitempty" min:"0" max:"36500" doc:"How many days a thread is kept after its last change; 0: forever. That of an owner's assistant only shortens the server's, in the owner's own threads"`
	Extract       json.RawMessage `json:"extract,omitempty" max:"32768" format:"schema" doc:"A JSON schema of an object: what the text model is to find in a call once it has ended"`
	Shared        bool            `json:"shared,omitempty" doc:"Whether other owners may use it, and see it"`

	ReadOnly  bool      `json:"read_only,omitempty" doc:"It is the operator's or another owner's"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`

	// Owner has made it; empty: the operator, in the settings.
	Owner string `json:"-"`
	// Secret signs the requests of its HTTP tools: whsec_ and Base64.
	Secret string `json:"-"`
	// Values are the thread's values of its variables; see Filled.
	Values map[string]string `json:"-"`
}

// Ref names an assistant and whose it is: an id alone is anybody's who takes it. The zero value is the server's
// settings.
type Ref struct {
	// Owner has made it; empty: the operator.
	Owner string
	ID    string
}

// Ref returns what names the assistant.
func (a *Assistant) Ref() Ref { return Ref{a.Owner, a.ID} }

// Short returns the assistant without what is long in it: lists have many.
func (a *Assistant) Short() Assistant {
	short := *a
	short.Instructions, short.Greeting, short.Variables = "", "", nil
	short.Tools, short.MCPServers = Tools{}, nil
	short.HTTPTools, short.Extract, short.Keyterms = nil, nil, nil
	short.Fillers, short.RecordingNotice, short.Transfers = Fillers{}, "", nil
	return short
}

// Shown returns the assistant as those read it who may only use it: of addresses, which may have secrets in them, the
// host, and no numbers.
func (a *Assistant) Shown() Assistant {
	shown := *a
	if !a.ReadOnly {
		return shown
	}
	shown.HTTPTools = slices.Clone(a.HTTPTools)
	for i, t := range a.HTTPTools {
		if u, err := url.Parse(t.URL); err == nil { // it was checked
			shown.HTTPTools[i].URL = u.Scheme + "://" + u.Host
		}
	}
	shown.Transfers = nil
	return shown
}

// Fixed reports whether the operator has made it: then it may widen the server's limits.
func (a *Assistant) Fixed() bool { return a.Owner == "" }

// Lent reports whether it is another owner's than the thread's: then it says how it answers, and may ask for less than
// the server has. It neither records and deletes what the thread's owner says nor raises what that costs.
func (a *Assistant) Lent() bool { return a.ReadOnly && !a.Fixed() }

// Records reports whether it wants calls to be recorded.
func (a *Assistant) Records() bool { return a.Recording != nil && *a.Recording && !a.Lent() }

// Set gives one of the server's numbers the assistant's own value, if there is one.
func (a *Assistant) Set(server, own *int) {
	if own != nil && (!a.Lent() || *own < *server) {
		*server = *own
	}
}

// MaxRetentionDays is the most of RetentionDays.
const MaxRetentionDays = 36_500

// Retention returns how many days its threads are kept, where the server keeps threads for so many; 0: forever.
func (a *Assistant) Retention(server int) int {
	switch own := a.RetentionDays; {
	case own == nil || a.Lent():
		return server
	case a.Fixed() || server == 0:
		return *own
	case *own == 0:
		return server
	default:
		return min(*own, server)
	}
}

// Voice is what an assistant has in calls.
type Voice struct {
	Upstream           string         `json:"upstream,omitempty" max:"32" format:"id" doc:"The name of one of the server's upstreams"`
	Model              string         `json:"model,omitempty" max:"200" format:"line" doc:"The model"`
	Voice              string         `json:"voice,omitempty" max:"200" format:"line" doc:"A name, or the id of a custom voice"`
	Speed              *float64       `json:"speed,omitempty" min:"0.25" max:"1.5" doc:"How fast it speaks; 1 is as usual"`
	TurnDetection      *TurnDetection `json:"turn_detection,omitempty" doc:"What decides that the caller's turn is over"`
	Language           string         `json:"language,omitempty" format:"language" doc:"Of the transcription, such as en"`
	TranscriptionModel string         `json:"transcription_model,omitempty" max:"200" format:"line" doc:"Transcribes what the caller says"`
}

// TurnDetection is what decides that the caller's turn is over: `server_vad`, `semantic_vad` (with `eagerness`: low,
// medium, high, auto) or `none` (push to talk). The fields are those of the Realtime API, which provides the defaults,
// such as `{type: server_vad, threshold: 0.5, prefix_padding_ms: 300, silence_duration_ms: 500, idle_timeout_ms: 6000,
// create_response: true, interrupt_response: true}`.
type TurnDetection struct {
	// server_vad, semantic_vad, none: push to talk.
	Type              string   `yaml:"type" json:"type" default:"server_vad" doc:"server_vad, semantic_vad, none: push to talk"`
	Threshold         *float64 `yaml:"threshold" json:"threshold,omitempty" doc:"server_vad, 0 to 1"`                    // server_vad, 0 to 1
	PrefixPaddingMS   *int     `yaml:"prefix_padding_ms" json:"prefix_padding_ms,omitempty" doc:"server_vad"`            // server_vad
	SilenceDurationMS *int     `yaml:"silence_duration_ms" json:"silence_duration_ms,omitempty" doc:"server_vad"`        // server_vad
	IdleTimeoutMS     *int     `yaml:"idle_timeout_ms" json:"idle_timeout_ms,omitempty" doc:"server_vad"`                // server_vad
	Eagerness         string   `yaml:"eagerness" json:"eagerness,omitempty" doc:"semantic_vad: low, medium, high, auto"` // semantic_vad: low, medium, high, auto
	CreateResponse    *bool    `yaml:"create_response" json:"create_response,omitempty" doc:"Whether the model answers by itself"`
	InterruptResponse *bool    `yaml:"interrupt_response" json:"interrupt_response,omitempty" doc:"Whether speech interrupts an answer"`
}

// Object returns the object of the Realtime API in JSON; null is push to talk. Without a type it is server_vad.
func (t TurnDetection) Object() json.RawMessage {
	if t.Type == "none" {
		return json.RawMessage("null")
	}
	t.Type = cmp.Or(t.Type, "server_vad")
	raw, _ := json.Marshal(t) // nothing in it can fail to encode
	return raw
}

// Text is what an assistant has for typed messages.
type Text struct {
	Provider    string   `json:"provider,omitempty" max:"32" format:"id" doc:"One of the server's providers"`
	Model       string   `json:"model,omitempty" max:"200" format:"line" doc:"The model"`
	Temperature *float64 `json:"temperature,omitempty" min:"0" max:"2" doc:"Sent only to models that take it"`
	MaxTokens   int      `json:"max_tokens,omitempty" min:"1" max:"1000000" doc:"Of an answer"`
}

// Tools are lists of tools, as in the server's settings.
type Tools struct {
	Allow   []string `json:"allow,omitzero" items:"256" min:"1" max:"200" format:"tool" doc:"Only these of the server's; an empty list: none"`
	Deny    []string `json:"deny,omitempty" items:"256" min:"1" max:"200" format:"tool" doc:"Never these, also of clients, besides those that the server denies"`
	Approve []string `json:"approve,omitempty" items:"256" min:"1" max:"200" format:"tool" doc:"Only with the user's approval, besides those that the server names"`
}

// Fillers are what is said in a call while a tool takes long.
type Fillers struct {
	AfterSeconds *float64 `json:"after_seconds,omitempty" min:"0" max:"600" doc:"Once for each wait, unless something was said since the tool was called; 0: never"`
	Lines        []string `json:"lines,omitzero" items:"20" min:"1" max:"500" format:"line" doc:"Said word for word, one after the other; an empty list: what the model likes"`
}

// Interruption is what speech must have to interrupt an answer. Speech over an answer that has less makes that pause
// only; 0 asks for nothing. What is missing is as the upstream does it.
type Interruption struct {
	// How long it must be.
	MinSeconds *float64 `yaml:"min_seconds" json:"min_seconds,omitempty" min:"0" max:"10" doc:"How long it must be"`
	// How many words it must have.
	MinWords *int `yaml:"min_words" json:"min_words,omitempty" min:"0" max:"20" doc:"How many words it must have"`
	// The answer goes on if no word has come so long after it.
	ResumeSeconds *float64 `yaml:"resume_seconds" json:"resume_seconds,omitempty" min:"0" max:"10" doc:"The answer goes on if no word has come so long after it"`
}

// Seconds returns so many seconds.
func Seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// Or returns it with what it lacks from another one.
func (i Interruption) Or(other Interruption) Interruption {
	return Interruption{
		MinSeconds: cmp.Or(i.MinSeconds, other.MinSeconds), MinWords: cmp.Or(i.MinWords, other.MinWords),
		ResumeSeconds: cmp.Or(i.ResumeSeconds, other.ResumeSeconds),
	}
}

// Transfer is somebody with whom a caller may be connected.
type Transfer struct {
	Number string `json:"number" min:"1" format:"number" doc:"Such as +493012345678; of an owner's assistant one that may be dialled"`
	Says   string `json:"says,omitempty" max:"500" format:"line" doc:"Said before, word for word; empty: what the model likes"`
}

// HTTPTool is a tool that is run by a request.
type HTTPTool struct {
	Name           string          `json:"name" min:"1" max:"64" format:"name" doc:"What the model calls it"`
	Description    string          `json:"description,omitempty" max:"4096" doc:"What the model is told of it"`
	Parameters     json.RawMessage `json:"parameters,omitempty" max:"32768" format:"schema" doc:"The JSON schema of its arguments"`
	URL            string          `json:"url" min:"1" max:"2048" format:"url" doc:"Gets the arguments as a JSON body, or as a query by GET"`
	Method         string          `json:"method,omitempty" enum:"GET,POST,PUT,PATCH,DELETE" doc:"POST if it is missing"`
	TimeoutSeconds int             `json:"timeout_seconds,omitempty" min:"1" max:"600" doc:"As for all tools if it is missing"`
}

// History is how much of a thread models see, and how often they may call tools.
type History struct {
	ReplayMessages  *int `json:"replay_messages,omitempty" min:"0" max:"200" doc:"How many messages a new call gets"`
	MaxTurns        *int `json:"max_turns,omitempty" min:"1" max:"1000" doc:"How many turns a typed one sees"`
	MaxTokens       *int `json:"max_tokens,omitempty" min:"100" max:"1000000" doc:"How many tokens of them"`
	TrimChunkTokens *int `json:"trim_chunk_tokens,omitempty" min:"1" max:"100000" doc:"How many tokens are left out at a time"`
	MaxToolRounds   *int `json:"max_tool_rounds,omitempty" min:"1" max:"100" doc:"Of a typed turn"`
}

// Limits are those of one call; 0: no limit.
type Limits struct {
	MaxMinutes  *float64 `json:"max_minutes,omitempty" min:"0" max:"10080" doc:"The longest call; 0: no limit"`
	IdleMinutes *float64 `json:"idle_minutes,omitempty" min:"0" max:"1440" doc:"A call ends after this long without speech, answers or tools; 0: never"`
	CallUSD     *float64 `json:"call_usd,omitempty" min:"0" max:"1000000" doc:"What a call may cost, in US dollars; 0: no limit"`
}
