package realtime

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// The states of a Response.
const (
	ResponseInProgress = "in_progress"
	ResponseCompleted  = "completed"
	ResponseCancelled  = "cancelled"
	ResponseFailed     = "failed"
	ResponseIncomplete = "incomplete"
)

// Response is the "response" object of response.created and response.done.
type Response struct {
	ID            string
	Status        string
	Model         string   // where it is another than the session's
	Modalities    []string // text or audio; nil if the server does not say
	StatusDetails StatusDetails
	Output        []Item
	// ConversationID is nil for a response outside the conversation.
	ConversationID *string
	// Usage is nil when the server sent none.
	Usage    *Usage
	Metadata map[string]string
}

// StatusDetails says why a response ended as it did.
type StatusDetails struct {
	Type string
	// Reason is turn_detected, client_cancelled, max_output_tokens or content_filter; or the text itself if the server
	// sent a plain string.
	Reason string
	Error  *Error
	Raw    json.RawMessage
}

// UnmarshalJSON accepts the documented object, a plain string and null. Any other value is only kept in Raw.
func (s *StatusDetails) UnmarshalJSON(b []byte) error {
	*s = StatusDetails{Raw: append(json.RawMessage(nil), b...)}
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &s.Reason)
	}
	if len(b) == 0 || b[0] != '{' {
		return nil
	}
	var w struct {
		Type   loose           `json:"type"`
		Reason loose           `json:"reason"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	s.Type, s.Reason = string(w.Type), string(w.Reason)
	if len(w.Error) > 0 {
		store(&s.Error, w.Error)
	}
	return nil
}

// DecodeResponse reads the "response" of an event. Status details, output, usage and metadata of an unexpected form are
// omitted without an error.
func DecodeResponse(raw json.RawMessage) (Response, error) {
	var r Response
	err := members(raw, func(key string, val []byte) error {
		switch key {
		case "id":
			r.ID = looseText(val)
		case "status":
			r.Status = looseText(val)
		case "model":
			r.Model = looseText(val)
		case "output_modalities":
			_ = json.Unmarshal(val, &r.Modalities) // of another form: none
		case "status_details":
			return r.StatusDetails.UnmarshalJSON(val)
		case "output":
			r.Output = decodeOutput(val)
		case "conversation_id":
			r.ConversationID = nil
			if val[0] == '"' {
				r.ConversationID = new(looseText(val))
			}
		case "usage":
			r.Usage = nil
			if val[0] != '{' {
				break
			}
			if u, err := DecodeUsage(val); err == nil {
				r.Usage = &u
			}
		case "metadata":
			r.Metadata = decodeMetadata(val)
		}
		return nil
	})
	if err != nil {
		return Response{}, fmt.Errorf("decode response: %w", err)
	}
	return r, nil
}

// decodeOutput reads the items that are readable.
func decodeOutput(raw []byte) []Item {
	if isNull(raw) {
		return []Item{}
	}
	if raw[0] != '[' {
		return nil
	}
	items := []Item{}
	_ = elements(raw, func(val []byte) error { // cannot fail: raw was scanned before
		if item, err := DecodeItem(val); err == nil {
			items = append(items, item)
		}
		return nil
	})
	return items
}

func decodeMetadata(raw json.RawMessage) map[string]string {
	var m map[string]loose
	if len(raw) == 0 || json.Unmarshal(raw, &m) != nil || len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = string(v)
	}
	return out
}

// Usage counts the tokens of a response or of a transcription. A transcription that is billed by length has Type
// "duration" and Seconds.
type Usage struct {
	Type         string // of a transcription: tokens or duration; of speech: characters
	Seconds      float64
	TotalTokens  int64
	InputTokens  int64
	OutputTokens int64
	Characters   int64

	InputAudio  int64 // of InputTokens
	Cached      int64 // of InputTokens, billed at the cached price
	CachedAudio int64 // of Cached
	OutputAudio int64 // of OutputTokens

	// Raw is the object as received.
	Raw json.RawMessage
}

// Counts reports whether it counts anything.
func (u *Usage) Counts() bool {
	return u != nil && (u.TotalTokens > 0 || u.InputTokens > 0 || u.OutputTokens > 0 || u.Seconds > 0)
}

// The most tokens that a response can read, and write in a second.
const (
	maxRead    = 4 << 20
	maxWritten = 1000
)

// Within returns the usage as far as it can be in a time, and whether that is less than what was told. An upstream may
// count from a little before, and up to a whole minute.
func (u Usage) Within(t time.Duration) (possible Usage, less bool) {
	seconds := (t + time.Minute).Seconds()
	written := int64(seconds * maxWritten)
	less, u.Seconds = u.Seconds > seconds, min(u.Seconds, seconds)
	for tokens, most := range map[*int64]int64{
		&u.TotalTokens: maxRead + written, &u.OutputTokens: written, &u.OutputAudio: written,
		&u.InputTokens: maxRead, &u.InputAudio: maxRead, &u.Cached: maxRead, &u.CachedAudio: maxRead,
	} {
		less, *tokens = less || *tokens > most, min(*tokens, most)
	}
	return u, less
}

// count is a number of tokens or seconds. What is no number, or negative, counts as none: one odd field must not lose
// the others.
type count float64

// UnmarshalJSON never fails on valid JSON.
func (c *count) UnmarshalJSON(b []byte) error {
	f, _ := strconv.ParseFloat(string(b), 64) // infinite where it is too large
	*c = count(max(f, 0))
	return nil
}

// tokens returns whole ones.
func (c count) tokens() int64 { return int64(min(c, 1<<53)) }

// DecodeUsage reads a "usage" object. Some servers name the details input_tokens_details and output_tokens_details,
// as the Responses API does, and the counts prompt_tokens and completion_tokens, as Chat Completions do.
func DecodeUsage(raw json.RawMessage) (Usage, error) {
	type split struct {
		Audio  count `json:"audio_tokens"`
		Cached count `json:"cached_tokens"`
	}
	type input struct {
		split
		CachedDetails split `json:"cached_tokens_details"`
	}
	var w struct {
		Type         loose  `json:"type"`
		Seconds      count  `json:"seconds"`
		Characters   count  `json:"characters"`
		TotalTokens  count  `json:"total_tokens"`
		InputTokens  count  `json:"input_tokens"`
		OutputTokens count  `json:"output_tokens"`
		Input        *input `json:"input_token_details"`
		InputAlt     *input `json:"input_tokens_details"`
		Output       *split `json:"output_token_details"`
		OutputAlt    *split `json:"output_tokens_details"`
		Prompt       count  `json:"prompt_tokens"`
		Completion   count  `json:"completion_tokens"`
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		return Usage{}, fmt.Errorf("decode usage: %w", err)
	}
	in, out := cmp.Or(w.Input, w.InputAlt, new(input)), cmp.Or(w.Output, w.OutputAlt, new(split))
	return Usage{
		Type: string(w.Type), Seconds: float64(w.Seconds), Characters: w.Characters.tokens(),
		TotalTokens:  w.TotalTokens.tokens(),
		InputTokens:  cmp.Or(w.InputTokens, w.Prompt).tokens(),
		OutputTokens: cmp.Or(w.OutputTokens, w.Completion).tokens(),
		InputAudio:   in.Audio.tokens(), OutputAudio: out.Audio.tokens(),
		Cached: in.Cached.tokens(), CachedAudio: in.CachedDetails.Audio.tokens(),
		Raw: append(json.RawMessage(nil), raw...),
	}, nil
}

// Sent is how far a client was sent the answers of a call, which is what it knows of them.
type Sent struct {
	Pending []string  // responses of which it has not been sent all sound, and so not the end
	Done    string    // the response whose end it was sent last, empty for none
	At      time.Time // and when
}

// SayExactly begins instructions to say the text after them.
const SayExactly = "Say exactly the following to the user, word for word, and nothing else:\n\n"
