package simulator

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/served"
)

// maxSampleDepth limits arguments that are made up from a schema.
const maxSampleDepth = 6

// actor is who hears, answers and speaks in a session, by the script.
type actor struct {
	*voice

	script *Script
	pace   Pace
	faults Faults

	mu         sync.Mutex
	utterances int               // so far: they rotate in the script
	failed     int               // responses that failed on purpose
	heard      map[string]*Reply // to utterances, by item
	follow     map[string]*Reply // by call id: what follows its output
	says       map[string]string // by response: a voice that knows the whole text has clips for more of it
}

// sleep returns false if ctx ends before d has passed.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Write implements [served.Ear].
func (a *actor) Write(ctx context.Context, u served.Utterance) iter.Seq2[served.Words, error] {
	a.mu.Lock()
	defer a.mu.Unlock()
	reply := &a.script.Spoken[a.utterances%len(a.script.Spoken)]
	a.utterances++
	a.heard[u.Item] = reply
	wait := a.pace.Transcript
	if a.faults.Transcripts == TranscriptLate {
		wait += a.pace.Think + 2*time.Second
	}
	return func(yield func(served.Words, error) bool) {
		if !sleep(ctx, wait) {
			return
		}
		if a.faults.Transcripts == TranscriptFailed {
			yield(served.Words{}, &realtime.Error{
				Type: "transcription_error", Code: "audio_unintelligible", Message: "The audio could not be transcribed.",
			})
			return
		}
		for _, piece := range chunks(reply.Transcript) {
			yield(served.Words{Text: piece}, nil)
		}
	}
}

// Answer implements [served.Mind].
func (a *actor) Answer(ctx context.Context, r *served.Request) iter.Seq2[served.Piece, error] {
	return func(yield func(served.Piece, error) bool) {
		if !sleep(ctx, a.pace.Think) {
			return
		}
		pieces, err := a.answer(r)
		for _, p := range pieces {
			if !yield(p, nil) || !sleep(ctx, a.pace.Step) {
				return
			}
		}
		if err != nil {
			yield(served.Piece{}, err)
		}
	}
}

// answer returns the pieces of a response.
func (a *actor) answer(r *served.Request) (pieces []served.Piece, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed < a.faults.FailResponses {
		a.failed++
		return nil, &realtime.Error{
			Type: "rate_limit_error", Code: "rate_limit_exceeded", Message: "The response failed on purpose.",
		}
	}
	say, calls, reply := a.choose(r)
	say, cut := limited(say, r.MaxTokens)
	a.says[r.Response] = say
	for _, chunk := range chunks(say) {
		pieces = append(pieces, served.Piece{Text: chunk})
	}
	if cut {
		return append(pieces, served.Piece{Stop: "max_output_tokens"}), nil
	}
	for _, c := range calls {
		c.ID = newID("call_")
		a.follow[c.ID] = reply
		arguments := c.Arguments
		if a.faults.BadArguments {
			arguments = arguments[:len(arguments)/2]
		}
		for part := range strings.SplitAfterSeq(arguments, ",") {
			c.Arguments = part
			pieces = append(pieces, served.Piece{Call: c})
		}
	}
	return pieces, nil
}

// Speak implements [served.Mouth]. It does not wait for the text, and so is done before it is told.
func (a *actor) Speak(_ context.Context, s served.Saying) iter.Seq2[served.Frame, error] {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := a.says[s.Response]
	delete(a.says, s.Response)
	return func(yield func(served.Frame, error) bool) {
		frames := a.voice.say(text)
		for i, opus := range frames {
			spoken := ((i+1)*len(text) + len(frames) - 1) / len(frames)
			if !yield(served.Frame{Opus: opus, Spoken: spoken}, nil) {
				return
			}
		}
	}
}

// limited cuts a text after so many tokens, at four characters each. cut means that something is missing.
func limited(text string, tokens int) (limited string, cut bool) {
	if tokens == 0 || len(text) <= 4*tokens {
		return text, false
	}
	return strings.ToValidUTF8(text[:4*tokens], ""), true
}

// choose decides what a response says and calls: about new outputs of function calls, else about what the user said
// last. reply is what follows the calls' outputs.
func (a *actor) choose(r *served.Request) (say string, calls []served.Call, reply *Reply) {
	if text, ok := strings.CutPrefix(r.Instructions, realtime.SayExactly); ok {
		return text, nil, nil
	}
	var outputs []*served.Item
	for i := range slices.Backward(r.Items) {
		it := &r.Items[i]
		switch {
		case it.Type == realtime.ItemFunctionCallOutput:
			outputs = append(outputs, it)
			continue
		case it.Type == realtime.ItemFunctionCall:
			continue
		case len(outputs) > 0:
		case it.Role == "user":
			return a.resolve(r, a.replyTo(it))
		case it.Role == "system", it.Role == "assistant" && it.Given: // perhaps the beginning of an answer
			continue
		}
		break
	}
	if len(outputs) > 0 {
		return a.fill(r, a.about(outputs)), nil, nil
	}
	return a.resolve(r, &a.script.Otherwise)
}

func (a *actor) replyTo(it *served.Item) *Reply {
	if reply := a.heard[it.ID]; reply != nil {
		return reply
	}
	for i := range a.script.Typed {
		if rule := &a.script.Typed[i]; rule.Match.MatchString(it.Words) {
			return &rule.Reply
		}
	}
	return &a.script.Otherwise
}

// about is the answer after tools; a failure takes precedence.
func (a *actor) about(outputs []*served.Item) (say string) {
	for _, out := range outputs {
		reply := cmp.Or(a.follow[out.CallID], &Reply{})
		delete(a.follow, out.CallID)
		if reportsError(out.Output) {
			return cmp.Or(reply.Failed, textToolFailed)
		}
		say = cmp.Or(reply.Then, textToolDone)
	}
	return say
}

// reportsError recognises the forms in which tools report failures to a model.
func reportsError(output string) bool {
	if strings.HasPrefix(strings.ToLower(strings.TrimSpace(output)), "error") {
		return true
	}
	var o struct {
		Error   any    `json:"error"`
		IsError bool   `json:"isError"`
		Status  string `json:"status"`
	}
	return json.Unmarshal([]byte(output), &o) == nil && (o.Error != nil || o.IsError || o.Status == "error")
}

// resolve turns a reply into an answer whose tools are all declared.
func (a *actor) resolve(r *served.Request, reply *Reply) (string, []served.Call, *Reply) {
	if forced, ok := forcedCall(r); ok {
		return "", []served.Call{forced}, &Reply{Then: textToolDone, Failed: textToolFailed}
	}
	for ; reply != nil; reply = reply.Else {
		if calls, ok := pickCalls(r, reply.Calls); ok {
			return a.fill(r, reply.Say), calls, reply
		}
	}
	return textPlainAgain, nil, nil
}

// forcedCall obeys a tool_choice that demands a call. It is asked about what the user said, never about outputs, so
// that the model speaks in the end.
func forcedCall(r *served.Request) (served.Call, bool) {
	chosen, _ := r.Choice.(object)
	for _, t := range r.Tools {
		if r.Choice == "required" || t.Name == chosen["name"] {
			return served.Call{Name: t.Name, Arguments: sampleArguments(t.Parameters)}, true
		}
	}
	return served.Call{}, false
}

func pickCalls(r *served.Request, wanted []Call) ([]served.Call, bool) {
	var calls []served.Call
	for _, w := range wanted {
		if r.Choice == "none" {
			return nil, false
		}
		i := slices.IndexFunc(r.Tools, func(t served.Tool) bool {
			ok, err := path.Match(w.Name, t.Name)
			return ok && err == nil
		})
		if i < 0 {
			return nil, false
		}
		t := &r.Tools[i]
		calls = append(calls, served.Call{Name: t.Name, Arguments: cmp.Or(w.Arguments, sampleArguments(t.Parameters))})
	}
	return calls, true
}

// maxEverything limits what {everything} stands for, in bytes.
const maxEverything = 4000

// fill puts what the user said before the latest turn into a text.
func (a *actor) fill(r *served.Request, text string) string {
	said := []string{"nothing yet"}
	for _, it := range r.Items {
		words := it.Words
		if reply := a.heard[it.ID]; reply != nil {
			words = reply.Transcript
		}
		if it.Type == realtime.ItemMessage && it.Role == "user" && words != "" {
			said = append(said, words)
		}
	}
	said = said[:max(1, len(said)-1)]
	previous := said[len(said)-1]
	everything := strings.Join(said[min(1, len(said)-1):], " / ")
	everything = everything[max(0, len(everything)-maxEverything):]
	return strings.NewReplacer("{previous}", previous, "{everything}", everything).Replace(text)
}

// sampleArguments makes up arguments that satisfy a JSON schema: its required members, with
// examples, defaults and first enum values if there are any.
func sampleArguments(schema object) string {
	b, _ := json.Marshal(sampleObject(schema, 0)) // what it takes from the schema was JSON before
	return string(b)
}

func sampleObject(schema object, depth int) object {
	out := object{}
	properties, _ := schema["properties"].(object)
	required, _ := schema["required"].([]any)
	for _, name := range required {
		key, _ := name.(string)
		property, _ := properties[key].(object)
		out[key] = sample(property, depth+1)
	}
	return out
}

func sample(schema object, depth int) any {
	if depth > maxSampleDepth {
		return nil
	}
	if v, ok := schema["const"]; ok {
		return v
	}
	if v, ok := schema["default"]; ok {
		return v
	}
	for _, list := range []string{"enum", "examples"} {
		if v, ok := schema[list].([]any); ok && len(v) > 0 {
			return v[0]
		}
	}
	for _, list := range []string{"anyOf", "oneOf", "allOf"} {
		if v, ok := schema[list].([]any); ok && len(v) > 0 {
			first, _ := v[0].(object)
			return sample(first, depth+1)
		}
	}
	return sampleOfType(schema, depth)
}

func sampleOfType(schema object, depth int) any {
	kind, _ := schema["type"].(string)
	if list, ok := schema["type"].([]any); ok && len(list) > 0 {
		kind, _ = list[0].(string)
	}
	switch kind {
	case "object":
		return sampleObject(schema, depth)
	case "array":
		items, _ := schema["items"].(object)
		return []any{sample(items, depth+1)}
	case "integer", "number":
		if low, ok := schema["minimum"]; ok {
			return low
		}
		return 1
	case "boolean":
		return true
	case "null":
		return nil
	}
	return "hello"
}

// chunks cuts a text into pieces of about three words; together they are the text.
func chunks(text string) []string {
	var out []string
	start, words := 0, 0
	for i, r := range text {
		if r != ' ' {
			continue
		}
		if words++; words == 3 {
			out = append(out, text[start:i])
			start, words = i, 0
		}
	}
	if start < len(text) {
		out = append(out, text[start:])
	}
	return out
}

// logprobs returns the tokens of a transcript, one for each word.
func logprobs(text string) []any {
	tokens := []any{}
	for token := range strings.SplitAfterSeq(text, " ") {
		bytes := make([]int, len(token))
		for i := range bytes {
			bytes[i] = int(token[i])
		}
		tokens = append(tokens, object{"token": token, "logprob": -0.01, "bytes": bytes})
	}
	return tokens
}
