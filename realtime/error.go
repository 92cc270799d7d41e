package realtime

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"strings"
)

// Error is the "error" object of an error event, of a failed transcription or of a failed response. Fields that the
// server omitted or sent as null are empty; a numeric code becomes its text.
type Error struct {
	Type    string
	Code    string
	Message string
	Param   string
	// EventID is the event_id of the client event that caused the error.
	EventID string
}

// Error returns the code and the message, as far as there are any, else the type.
func (e *Error) Error() string {
	if e.Code != "" && e.Message != "" {
		return e.Code + ": " + e.Message
	}
	return cmp.Or(e.Message, e.Code, e.Type)
}

// Fatal reports whether no event and no new session can succeed until somebody changes the account or the key. After
// such an error, do not reconnect.
func (e *Error) Fatal() bool {
	switch e.Code {
	case "insufficient_quota", "invalid_api_key", "account_deactivated", "billing_hard_limit_reached",
		"credit_balance_exhausted":
		return true
	}
	return e.Type == "insufficient_quota"
}

// codes are those by which programs decide, with words of the errors that have them elsewhere than as their code.
var codes = []struct {
	code  string
	words *regexp.Regexp
}{
	{"conversation_already_has_active_response", regexp.MustCompile(`(?i)already (has|have) an active response`)},
	{"response_cancel_not_active", regexp.MustCompile(`(?i)no active response`)},
	{"session_expired", regexp.MustCompile(`(?i)session (has )?expired|maximum duration`)},
	{"insufficient_quota", regexp.MustCompile(`(?i)exceeded your (current )?quota`)},
	{"invalid_api_key", regexp.MustCompile(`(?i)(incorrect|invalid) api key`)},
}

// isNoCode matches what servers write for a code that says nothing.
var isNoCode = regexp.MustCompile(`^(\d*|.*error)$`)

// findCode finds the code of an error that has it as its type or in its message.
func (e *Error) findCode() {
	for _, c := range codes {
		if e.Type == c.code || isNoCode.MatchString(e.Code) &&
			(strings.Contains(e.Message, c.code) || c.words.MatchString(e.Message)) {
			e.Code = c.code
			return
		}
	}
}

// UnmarshalJSON accepts an object, or a string, which becomes the message. A code that stands elsewhere is found.
func (e *Error) UnmarshalJSON(b []byte) error {
	defer e.findCode()
	if len(b) > 0 && b[0] == '"' {
		*e = Error{}
		return json.Unmarshal(b, &e.Message)
	}
	var w struct {
		Type    loose `json:"type"`
		Code    loose `json:"code"`
		Message loose `json:"message"`
		Param   loose `json:"param"`
		EventID loose `json:"event_id"`
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*e = Error{
		Type: string(w.Type), Code: string(w.Code), Message: string(w.Message),
		Param: string(w.Param), EventID: string(w.EventID),
	}
	return nil
}

// MarshalJSON writes the protocol's form: empty fields are null, except that type and message are always strings.
func (e Error) MarshalJSON() ([]byte, error) {
	null := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	return marshal(struct {
		Type    string  `json:"type"`
		Code    *string `json:"code"`
		Message string  `json:"message"`
		Param   *string `json:"param"`
		EventID *string `json:"event_id"`
	}{e.Type, null(e.Code), e.Message, null(e.Param), null(e.EventID)})
}

// loose is a string that accepts every JSON value: null becomes empty, and anything else but a string its JSON text.
type loose string

// UnmarshalJSON never fails on valid JSON.
func (l *loose) UnmarshalJSON(b []byte) error {
	*l = loose(looseText(b))
	return nil
}

// looseText returns val, which is JSON text, as a loose string.
func looseText(val []byte) string {
	switch {
	case isNull(val):
		return ""
	case val[0] == '"':
		return unquoted(val)
	}
	return string(val)
}

// marshal is json.Marshal without the escaping of <, > and &, which only HTML needs and which lengthens events.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// Encode is marshal for what can be written as JSON: it panics if a value cannot.
func Encode(v any) []byte {
	b, err := marshal(v)
	if err != nil {
		panic("realtime: encode: " + err.Error())
	}
	return b
}
