// Package phone takes calls of the telephone network. A [Carrier] is a company that has the numbers: its webhook tells
// of a call, and its socket carries the sound, which a [Stream] makes that of a client of the Realtime API. Facts about
// carriers are in docs/phone.md.
//
//	carrier ─▶ Read ─▶ input (order, gaps) ─▶ input_audio_buffer.append ─▶ call
//	carrier ◀─ Write ◀─ player (pace, marks) ◀─ response.output_audio.delta ◀─ call
package phone

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"voicebridge/realtime/media"
	"voicebridge/realtime/pcm"
)

// Settings are the numbers that are answered.
type Settings struct {
	// Telephone numbers by names of a-z, 0-9 and -: the webhook of one is {public_url}/phone/{carrier}/{name}. Entries
	// look like this:
	//
	//	desk: {carrier: twilio, number: "+493012345678", owner: alice, assistant: desk, secret_env: TWILIO_TOKEN}
	Lines map[string]Line `yaml:"lines" format:"name"`
	// A call goes on with the thread of the caller's last call if that has changed within so many days; 0: each call
	// has a new thread.
	ThreadDays time.Duration `yaml:"thread_days" default:"30" min:"0" max:"36500"`
	// A caller is asked whether they are there once nobody has spoken for so long; 0: never.
	AskAfter time.Duration `yaml:"ask_after_seconds" default:"10" min:"0" max:"3600"`
	// A call ends once nobody but that question has spoken for so long; 0: never.
	HangUpAfter time.Duration `yaml:"hang_up_after_seconds" default:"30" min:"0" max:"3600"`
	// What the numbers that may be called begin with, such as +49; without any, none may be called.
	DialPrefixes []string `yaml:"dial_prefixes" format:"prefix"`
	// What to do if the carrier hears that a machine has answered a call out: hangup, message (to speak after its
	// tone), or off, not to listen for it.
	Machine string `yaml:"machine" default:"off" enum:"hangup,message,off"`
}

// Dials reports whether a number may be called.
func (s *Settings) Dials(number string) bool {
	return number != "" && Number(number) == number &&
		slices.ContainsFunc(s.DialPrefixes, func(prefix string) bool { return strings.HasPrefix(number, prefix) })
}

// Line is a telephone number, and who answers it.
type Line struct {
	// Who has the number.
	Carrier string `yaml:"carrier" min:"1" enum:"twilio,telnyx,plivo"`
	// The number, such as +493012345678.
	Number string `yaml:"number" format:"number"`
	// Whose threads its calls are.
	Owner string `yaml:"owner" min:"1" max:"128"`
	// The assistant that answers: one of the owner's, or one that is shared. Empty: the server's settings.
	Assistant string `yaml:"assistant" max:"64"`
	// The variable with the carrier's secret: Twilio's and Plivo's auth token, Telnyx' API key.
	SecretEnv string `yaml:"secret_env" min:"1" format:"variable"`
	// Twilio's account SID, Plivo's auth id, Telnyx' connection id.
	Account string `yaml:"account" max:"128"`
	// Telnyx' public key in base64, which checks its signatures.
	PublicKey string `yaml:"public_key" max:"128"`
	// The carrier's API, where it is not at its usual address.
	APIURL string `yaml:"api_url" format:"url"`
	// Calls at a time, and of them those of one caller.
	MaxCalls          int `yaml:"max_calls" default:"10" min:"1" max:"10000"`
	MaxCallsPerCaller int `yaml:"max_calls_per_caller" default:"2" min:"1" max:"10000"`

	// Name is its key in Settings.Lines, Secret what the variable holds.
	Name   string                       `yaml:"-"`
	Secret interface{ Reveal() string } `yaml:"-"`
}

// Carrier is a telephone company, or a service that speaks as one does. All but its requests are functions of their
// arguments.
type Carrier interface {
	// Verify returns an error unless the carrier has signed a request of its webhook, by the line's key.
	Verify(l *Line, r *Request, now time.Time) error
	// Notice reads a signed request.
	Notice(r *Request) (Notice, error)
	// Connect has the carrier open a stream to an address for a call, Refuse has it say that the line is busy. Both
	// return what to answer to the notice of the call.
	Connect(ctx context.Context, l *Line, n Notice, address string) (Reply, error)
	Refuse(ctx context.Context, l *Line, call string) (Reply, error)
	// Dial has the carrier call a number, and returns its id of the call. The error is errAgain if it has not taken the
	// call, errRefused if it never will.
	Dial(ctx context.Context, l *Line, d Dial) (call string, err error)
	// Find returns the id of a call that the carrier may have taken, empty if there is none; sure reports whether there
	// was none either.
	Find(ctx context.Context, l *Line, d Dial) (call string, sure bool, err error)
	// Transfer has the carrier call a number and connect the call with it, of which it tells by the webhook. Forward is
	// what to answer if that asks for it.
	Transfer(ctx context.Context, l *Line, t Transfer) error
	Forward(l *Line, t Transfer) Reply
	// HangUp ends a call, also one that has ended.
	HangUp(ctx context.Context, l *Line, call string) error
	Wire
}

// Wire is the form of a stream's messages.
type Wire interface {
	// Read reads one; one that says nothing has no kind.
	Read(data []byte) (Message, error)
	Write(stream string, m Message) string
}

// Carriers are all of them, by their names.
var Carriers = map[string]Carrier{"twilio": twilio{}, "telnyx": telnyx{}, "plivo": plivo{}}

// Request is a request of a carrier's webhook.
type Request struct {
	Method string
	// URL is the public address that the carrier has called, with its query.
	URL    *url.URL
	Header http.Header
	Body   []byte
	// Form is the form in the body.
	Form url.Values
}

// Get returns a parameter in the form or the query.
func (r *Request) Get(name string) string {
	if v := r.Form.Get(name); v != "" {
		return v
	}
	return r.URL.Query().Get(name)
}

// Notice is the message of a webhook.
type Notice struct {
	// Ringing means that a call comes in, Ended that one is over; others are of no interest. Once means that the answer
	// tells the carrier nothing, so that it needs no second one.
	Ringing, Ended, Once bool
	// Call is the carrier's id; From and To are numbers as the carrier writes them.
	Call, From, To string

	// ID is our id of a call out, which is none of the above. Asked is the id that Dial has returned, if that is not
	// Call.
	ID, Asked string
	// Rings means that the number is being called, Answered that somebody has answered.
	Rings, Answered bool
	// The carrier hears a machine, at its beginning, its tone, after which it records, or neither.
	Machine, Tone, Person bool
	// Reason is why a call out has ended that nobody has answered, or a transfer: busy, no_answer or failed.
	Reason string

	// Move is how a transfer of the call goes.
	Move Move
}

// Transfer is a call that is to be connected with another number.
type Transfer struct {
	// Call is the carrier's id, Webhook the address of the line's webhook.
	Call, Number, Webhook string
}

// forwardTime is how long the number of a transfer is called.
const forwardTime = "30"

// Move is the state of a transfer, as a carrier tells it.
type Move int

// The states of a transfer: the carrier asks for instructions, the other side has answered, or has not.
const (
	Asks Move = iota + 1
	Reached
	Failed
)

// Reply is the answer to a webhook.
type Reply struct{ Type, Body string }

// over are the states of calls that have ended.
var over = []string{"completed", "busy", "failed", "no-answer", "canceled", "cancel", "timeout"}

// notice reads a form about a call; the id of the call has a name.
func (r *Request) notice(idName string) (Notice, error) {
	n := Notice{Call: r.Get(idName), From: r.Get("From"), To: r.Get("To")}
	n.Ended = r.Get("Event") == "Hangup" || slices.Contains(over, r.Get("CallStatus"))
	n.Ringing = !n.Ended && !strings.HasPrefix(r.Get("Direction"), "outbound")
	if n.ID = r.URL.Query().Get("call"); n.ID != "" {
		status := r.Get("CallStatus")
		n.Ringing, n.Rings, n.Answered = false, status == "ringing", status == "in-progress"
		n.Reason = cmp.Or(reasons[status], "failed")
	}
	if about := r.URL.Query().Get("transfer"); about != "" {
		n.moves(r, about)
	}
	return n.checked()
}

// moves reads the state of a transfer from a form that has come to one of the addresses that forward names.
func (n *Notice) moves(r *Request, about string) {
	n.Ringing = false
	status := r.Get("DialCallStatus") + r.Get("DialStatus")
	switch {
	case about == "ask" && !n.Ended:
		n.Move = Asks
	case about == "status":
		n.Call, n.Ended = cmp.Or(r.Get("ParentCallSid"), n.Call), false
		if s := cmp.Or(r.Get("DialAction"), r.Get("CallStatus")); s == "answer" || s == "in-progress" {
			n.Move = Reached
		}
	case status == "completed", status == "answered":
		n.Move, n.Ended = Reached, false
	case !n.Ended:
		n.Move, n.Reason = Failed, cmp.Or(reasons[status], "failed")
	}
}

// forward has a number called. dial and noun are attributes of their elements, in which HOOK stands for the webhook.
func forward(t Transfer, from, to, dial, noun string) Reply {
	return xml(strings.ReplaceAll(`<Dial callerId="`+from+`" timeout="`+forwardTime+`" action="HOOK?transfer=over"`+dial+
		`><Number`+noun+`>`+to+`</Number></Dial>`, "HOOK", t.Webhook))
}

// checked returns a notice, or that it is about no call.
func (n Notice) checked() (Notice, error) {
	if !id.MatchString(n.Call) {
		return n, fmt.Errorf("%w: no call", ErrRefused)
	}
	return n, nil
}

// Nothing is the answer that has nothing done: a call ends then that has nothing else.
var Nothing = xml("")

func xml(body string) Reply {
	return Reply{"text/xml", `<?xml version="1.0" encoding="UTF-8"?><Response>` + body + `</Response>`}
}

// Kind is the kind of a [Message] of a stream.
type Kind int

// The kinds of messages that a carrier sends, gets, or both.
const (
	None  Kind = iota
	Start      // the stream begins
	Audio      // sound
	Key        // the caller has pressed a key
	Mark       // all sound before the mark was played
	Stop       // the call is over
	Clear      // drop all that was not played
)

// Message is a message of a stream.
type Message struct {
	Kind Kind
	// Call and Stream are the carrier's ids, Format that of the sound, with Start.
	Call, Stream string
	Format       media.Format
	// Chunk is the place of the sound in the stream, -1 if it comes in order, At its time, negative if it has none.
	Chunk int64
	At    time.Duration
	Sound []byte
	// Name is the key, or the name of a mark.
	Name string
}

// ErrRefused is the error of a request that a carrier has not signed, or of a message that it cannot have sent.
var ErrRefused = errors.New("not from the carrier")

// number matches the numbers of E.164, section 6.2.
var number = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)

// withheld are numbers that stand for none: the letters of ANONYMOUS on a keypad, and others.
var withheld = map[string]bool{"+266696687": true, "+8656696": true, "+7378742833": true}

// Number returns a number as E.164 has it, empty if it is none or withheld.
func Number(text string) string {
	if text != "" && strings.Trim(text, "0123456789") == "" {
		text = "+" + text // as Plivo writes it
	}
	if !number.MatchString(text) || withheld[text] {
		return ""
	}
	return text
}

// frame is a message in the form that Twilio has made common.
type frame struct {
	Event string
	Start *struct {
		CallSid, StreamSid, CallID, StreamID string
		CallControlID                        string `json:"call_control_id"`
		MediaFormat                          format
		Format                               format `json:"media_format"`
	}
	StreamID string `json:"stream_id"`
	Media    struct {
		Track, Payload   string
		Chunk, Timestamp json.Number
	}
	DTMF struct{ Digit string }
	Mark struct{ Name string }
	Name string
}

type format struct {
	Encoding   string
	SampleRate json.Number
	Rate       json.Number `json:"sample_rate"`
	Channels   json.Number
}

var encodings = map[string]pcm.Encoding{
	"audio/x-mulaw": pcm.ULaw, "PCMU": pcm.ULaw, "audio/x-alaw": pcm.ALaw, "PCMA": pcm.ALaw,
}

// id matches the ids of carriers.
var id = regexp.MustCompile(`^[A-Za-z0-9:_.=+/-]{1,256}$`)

// common are the kinds of the events of most carriers.
var common = map[string]Kind{"start": Start, "media": Audio, "dtmf": Key, "mark": Mark, "stop": Stop}

// read reads a message of the common form. kinds are those of the carrier's events, which come in order unless it
// promises none.
func read(data []byte, kinds map[string]Kind, ordered bool) (m Message, err error) {
	var f frame
	if err := json.Unmarshal(data, &f); err != nil {
		return m, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	m.Kind = kinds[f.Event]
	switch m.Kind {
	case Start:
		return f.start()
	case Audio:
		if t := f.Media.Track; t != "" && t != "inbound" {
			return Message{}, nil
		}
		if m.Sound, err = base64.StdEncoding.DecodeString(f.Media.Payload); err != nil {
			return m, fmt.Errorf("%w: %w", ErrRefused, err)
		}
		m.Chunk, m.At = whole(f.Media.Chunk), time.Duration(whole(f.Media.Timestamp))*time.Millisecond
		if ordered {
			m.Chunk = -1
		}
	case Key:
		if m.Name = f.DTMF.Digit; len(m.Name) != 1 || !strings.Contains("0123456789*#ABCD", m.Name) {
			return Message{}, nil
		}
	case Mark:
		m.Name = f.Mark.Name + f.Name
	}
	return m, nil
}

func (f *frame) start() (m Message, err error) {
	if f.Start == nil {
		return m, fmt.Errorf("%w: no start", ErrRefused)
	}
	m.Kind = Start
	m.Call = f.Start.CallSid + f.Start.CallID + f.Start.CallControlID
	m.Stream = f.Start.StreamSid + f.Start.StreamID + f.StreamID
	for _, given := range []format{f.Start.MediaFormat, f.Start.Format} {
		if given.Encoding == "" {
			continue
		}
		name, _, _ := strings.Cut(given.Encoding, ";")
		var known bool
		m.Format.Encoding, known = encodings[name]
		m.Format.Rate = 8000
		rate := string(given.SampleRate + given.Rate)
		if !known || rate != "" && rate != "8000" || given.Channels != "" && given.Channels != "1" {
			return m, fmt.Errorf("%w: sound of another format", ErrRefused)
		}
	}
	if m.Format.Rate == 0 || !id.MatchString(m.Call) || !id.MatchString(m.Stream) {
		return m, fmt.Errorf("%w: bad start", ErrRefused)
	}
	return m, nil
}

// whole returns a number, -1 if it is none.
func whole(n json.Number) int64 {
	if v, err := n.Int64(); err == nil && v >= 0 {
		return v
	}
	return -1
}

// dialect is how a carrier writes the messages that it gets, where STREAM and VALUE stand for the stream and the sound
// or the name.
type dialect struct{ audio, mark, clear string }

func (d dialect) write(stream string, m Message) string {
	form, value := d.clear, m.Name
	switch m.Kind {
	case Audio:
		form, value = d.audio, base64.StdEncoding.EncodeToString(m.Sound)
	case Mark:
		form = d.mark
	}
	return strings.NewReplacer("STREAM", stream, "VALUE", value).Replace(form)
}

// errAgain means that a carrier has not taken a request, errRefused that it never will.
var (
	errAgain   = errors.New("not taken")
	errRefused = errors.New("refused")
)

// reasons are why calls out have ended, by the carriers' names; all else is failed.
var reasons = map[string]string{
	"busy": "busy", "user_busy": "busy", "no-answer": "no_answer", "timeout": "no_answer", "no_answer": "no_answer",
	"canceled": "no_answer", "cancel": "no_answer", "originator_cancel": "no_answer",
}

// gone are the answers about a call that has ended: Telnyx has the second.
var gone = []int{http.StatusNotFound, http.StatusUnprocessableEntity}

var client = &http.Client{Timeout: askTimeout}

// askTimeout limits a request of a carrier's API.
const askTimeout = 10 * time.Second

// act has a carrier do something with a call. A call that is gone already is no error.
func act(ctx context.Context, method, address, contentType, body string, sign func(*http.Request)) error {
	err := ask(ctx, method, address, contentType, body, sign, nil)
	if s, ok := errors.AsType[statusError](err); ok && slices.Contains(gone, s.code) {
		return nil
	}
	return err
}

// statusError is an answer of a carrier's API that is none of success.
type statusError struct {
	code int
	text string
}

// Error returns the status, and the beginning of the answer.
func (e statusError) Error() string { return fmt.Sprintf("%d: %s", e.code, e.text) }

// Is knows the statuses with which the carrier has not taken the request.
func (e statusError) Is(target error) bool {
	switch {
	case e.code == http.StatusTooManyRequests:
		return target == errAgain
	case e.code >= 400 && e.code < 500 && e.code != http.StatusRequestTimeout:
		return target == errRefused
	}
	return false
}

// maxAnswer limits an answer of a carrier's API, in bytes.
const maxAnswer = 1 << 20

// ask makes a request of a carrier's API, and reads its JSON into answer, if that is not nil.
func ask(
	ctx context.Context, method, address, contentType, body string, sign func(*http.Request), answer any,
) error {
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask carrier: %w", err)
	}
	r.Header.Set("Content-Type", contentType)
	sign(r)
	res, err := client.Do(r)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return fmt.Errorf("ask carrier: %w: %w", errAgain, err)
	}
	if err != nil {
		return fmt.Errorf("ask carrier: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 500))
		return fmt.Errorf("ask carrier: %w", statusError{res.StatusCode, strings.ToValidUTF8(string(text), "")})
	}
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(answer); err != nil {
		return fmt.Errorf("read answer of carrier: %w", err)
	}
	return nil
}
