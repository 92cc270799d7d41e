package simulator

import (
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
	RefuseStatus int         `help:"Refuse the call with this HTTP status, 400 to 599." placeholder:"STATUS"`
	RefuseBody   string      `help:"With this body instead of the simulator's error." placeholder:"TEXT"`
	RefuseHeader http.Header `kong:"-"`
	// HangCreation never answers the creation.
	HangCreation bool `help:"Never answer the creation of a call."`
	// AnswerDelay delays the SDP answer.
	AnswerDelay Duration `help:"Answer the creation late." placeholder:"TIME"`
	// BadAnswer answers the creation with half an SDP.
	BadAnswer bool `help:"Answer the creation with half an SDP."`
	// NoLocation omits the header that names the call.
	NoLocation bool `help:"Leave out the header that names the call."`

	Transcripts TranscriptFault `help:"What happens to transcripts of speech: late, never, failed, or reversed (of two turns the later one first)." placeholder:"FAULT"`
	// ExpireAfter ends the session with session_expired, DropAfter without an event. After SilenceAfter neither events
	// nor audio are sent, but the connection stays. All count from the opening of the data channel; zero means never.
	ExpireAfter  Duration `help:"End the session as expired after this time." placeholder:"TIME"`
	DropAfter    Duration `help:"End the session without an event after this time." placeholder:"TIME"`
	SilenceAfter Duration `help:"Send neither events nor audio after this time." placeholder:"TIME"`

	InjectUnknown     bool `help:"Send an event of an unknown type before each response."`
	InjectMalformed   bool `help:"Send events that are malformed in several ways before each response."`
	DuplicateEvents   bool `help:"Send item, transcript and response events twice."`
	ItemsOutOfOrder   bool `help:"Announce the assistant's item before the user's."`
	ConversationEvent bool `help:"Send conversation.created after session.created."`
	BadArguments      bool `help:"Cut the arguments of function calls in the middle."`
	MuteUpdates       bool `help:"Never answer session.update."`

	FailResponses       int `help:"Make the first N responses of a call fail." placeholder:"N"`
	RejectSessionUpdate int `help:"Refuse the first N session.updates of a call." placeholder:"N"`
	RejectItems         int `help:"Refuse the first N conversation.item.creates of a call." placeholder:"N"`
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

// Duration is a time.Duration that is a flag, such as 1m30s.
type Duration time.Duration

func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}
