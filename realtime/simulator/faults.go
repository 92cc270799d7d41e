package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// TranscriptFault is a fault of the transcriptions of utterances.
type TranscriptFault string

// The faults of transcripts.
const (
	TranscriptLate     TranscriptFault = "late"     // after the answer has been generated
	TranscriptNever    TranscriptFault = "never"    // no event at all
	TranscriptFailed   TranscriptFault = "failed"   // an event reports the failure
	TranscriptReversed TranscriptFault = "reversed" // two turns' transcripts together, the later first
)

// Faults are what goes wrong on purpose in one call. The tags help and
// placeholder are for command-line flags.
type Faults struct {
	// RefuseStatus rejects the creation with this HTTP status, RefuseBody (an OpenAI-shaped error if empty) and
	// RefuseHeader.
	RefuseStatus int         `json:"refuse_status,omitempty" help:"Refuse the call with this HTTP status, 400 to 599." placeholder:"STATUS"`
	RefuseBody   string      `json:"refuse_body,omitempty" help:"With this body instead of the simulator's error." placeholder:"TEXT"`
	RefuseHeader http.Header `json:"-" kong:"-"`
	// HangCreation never answers the creation.
	HangCreation bool `json:"hang_creation,omitempty" help:"Never answer the creation of a call."`
	// AnswerDelay delays the SDP answer.
	AnswerDelay Duration `json:"answer_delay,omitempty" help:"Answer the creation late." placeholder:"TIME"`
	// BadAnswer answers the creation with half an SDP.
	BadAnswer bool `json:"bad_answer,omitempty" help:"Answer the creation with half an SDP."`
	// NoLocation omits the header that names the call.
	NoLocation bool `json:"no_location,omitempty" help:"Leave out the header that names the call."`

	Transcripts TranscriptFault `json:"transcripts,omitempty" help:"What happens to transcripts of speech: late, never, failed, or reversed (of two turns the later one first)." placeholder:"FAULT"`
	// ExpireAfter ends the session with session_expired, DropAfter without an event. After SilenceAfter neither events
	// nor audio are sent, but the connection stays. All count from the opening of the data channel; zero means never.
	ExpireAfter  Duration `json:"expire_after,omitempty" help:"End the session as expired after this time." placeholder:"TIME"`
	DropAfter    Duration `json:"drop_after,omitempty" help:"End the session without an event after this time." placeholder:"TIME"`
	SilenceAfter Duration `json:"silence_after,omitempty" help:"Send neither events nor audio after this time." placeholder:"TIME"`

	InjectUnknown     bool `json:"inject_unknown,omitempty" help:"Send an event of an unknown type before each response."`
	InjectMalformed   bool `json:"inject_malformed,omitempty" help:"Send events that are malformed in several ways before each response."`
	DuplicateEvents   bool `json:"duplicate_events,omitempty" help:"Send item, transcript and response events twice."`
	ItemsOutOfOrder   bool `json:"items_out_of_order,omitempty" help:"Announce the assistant's item before the user's."`
	ConversationEvent bool `json:"conversation_event,omitempty" help:"Send conversation.created after session.created."`
	BadArguments      bool `json:"bad_arguments,omitempty" help:"Cut the arguments of function calls in the middle."`
	MuteUpdates       bool `json:"mute_updates,omitempty" help:"Never answer session.update."`

	FailResponses       int `json:"fail_responses,omitempty" help:"Make the first N responses of a call fail." placeholder:"N"`
	RejectSessionUpdate int `json:"reject_session_update,omitempty" help:"Refuse the first N session.updates of a call." placeholder:"N"`
	RejectItems         int `json:"reject_items,omitempty" help:"Refuse the first N conversation.item.creates of a call." placeholder:"N"`
}

func (f *Faults) validate() error {
	var errs []error
	if f.RefuseStatus != 0 && (f.RefuseStatus < 400 || f.RefuseStatus > 599) {
		errs = append(errs, fmt.Errorf("refuse_status %d is not between 400 and 599", f.RefuseStatus))
	}
	known := []TranscriptFault{"", TranscriptLate, TranscriptNever, TranscriptFailed, TranscriptReversed}
	if !slices.Contains(known, f.Transcripts) {
		errs = append(errs, fmt.Errorf("transcripts %q is none of late, never, failed, reversed", f.Transcripts))
	}
	for name, d := range map[string]Duration{
		"answer_delay": f.AnswerDelay, "expire_after": f.ExpireAfter, "drop_after": f.DropAfter,
		"silence_after": f.SilenceAfter,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s is negative: %v", name, time.Duration(d)))
		}
	}
	for name, n := range map[string]int{
		"fail_responses": f.FailResponses, "reject_session_update": f.RejectSessionUpdate,
		"reject_items": f.RejectItems,
	} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("%s is negative: %d", name, n))
		}
	}
	return errors.Join(errs...)
}

// Duration is a time.Duration that is text in JSON, such as 1m30s.
type Duration time.Duration

func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// readFaults reads one JSON object and rejects unknown names and values.
func readFaults(dec *json.Decoder) (Faults, error) {
	dec.DisallowUnknownFields()
	var f Faults
	if err := dec.Decode(&f); err != nil {
		return Faults{}, fmt.Errorf("read faults: %w", err)
	}
	if dec.More() {
		return Faults{}, errors.New("read faults: more than one JSON value")
	}
	return f, f.validate()
}
