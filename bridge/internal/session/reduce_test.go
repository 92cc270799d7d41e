package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/realtime"
	"voicebridge/realtime/realtimetest"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/toolkit/charts"
)

var rewrite = flag.Bool("update", false, "write what the calls do into testdata/calls")

// TestCalls plays the transcripts in testdata/calls. In the file "call" each line is an
// input:
//
//	up {…}       an event of the active upstream session; up1, up2 … name a session
//	up2 dialed   that session is set up; up2 refused, up2 fatal: setting it up fails;
//	             "up2 refused for 12s": and the upstream asks to wait; up2 caught up: it has
//	             been sent what the caller said before
//	br {…}       an event of the browser; br joins: another browser takes over; br restarts:
//	             it was answered anew; br holding R {…}: it has not heard all of the response R;
//	             br told R {…}: it was just sent the end of R; server {…}: an application's server is the client
//	+1.5s        time passes, deadline by deadline
//	tool ID {…}  a tool ends with this output; "tool ID !words" is a failure
//	sound ID     the caller was sent the first sound of that response
//	wrote ID M   a tool says that it writes the message M
//	inner ID {…} the tool that runs calls another: a toolkit.Inner
//	tools A B    from now on, these are the server's tools
//	say words    text from elsewhere; "deliver words" is a queued text, which the queue
//	             keeps until it is saved; "keys 12#" was typed on a telephone
//	typed ID words  a text turn on the thread has ended with this answer
//	record STATE somebody pauses the recording, or goes on with it
//	interrupt    somebody stops the turn; "forget" resets the context
//	stop reason  somebody ends the call
//	up is STATE  the connection's state; also "br is STATE"
//
// and the indented lines below it are the effects. The file "thread" holds the messages
// that the call starts with, "filler" the time after which the voice speaks while a tool
// runs, with what it says, "tone" that a tone sounds then, "interruption" what speech must have to interrupt an answer, "first word" how long the upstream may say nothing, "grace" how long the call waits for a lost browser, "renew" how long before its end
// a session is replaced, "limit" how many bytes an event for the upstream may have, "cannot"
// the Capabilities that its sessions lack, "can" those that they have besides, "plays" that the client plays answers itself, "recorded" that the call is recorded, "may end" that the model may end it, "notice" what is said before the recording, "masked" that keys are masked, "fixed" the session that clients may not change,
// except for what "may change" names, "dialing" that its first session is still being dialled, and "others" how many other upstreams
// there are; up2 dialed other: with one of those, and "unpublished" that a client sends what the API does not know. The tool
// create_line_chart asks the user first, and so does the tool "paint" that a client declares.
func TestCalls(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/calls/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			testkit.Must(t, err)
			for i := range archive.Files {
				if archive.Files[i].Name != "call" {
					continue
				}
				want := string(archive.Files[i].Data)
				got := playScript(t, archive, want)
				if *rewrite {
					archive.Files[i].Data = []byte(got)
				} else if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			if *rewrite {
				testkit.Must(t, os.WriteFile(file, txtar.Format(archive), 0o600))
			}
		})
	}
}

func section(a *txtar.Archive, name string) string {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// scripted is a call in a transcript.
type scripted struct {
	t     *testing.T
	s     *State
	now   time.Time
	out   strings.Builder
	texts int // put into the call so far
	// twice has each input reduced on a copy of the state, too.
	twice bool
	// unpublished means that a client sends what the API does not know, to have it refused.
	unpublished bool
	// thread is what the thread holds that is not of the call.
	thread []thread.Message
}

func playScript(t *testing.T, archive *txtar.Archive, script string) string {
	t.Helper()
	c := newScripted(t, section(archive, "thread"))
	c.twice, c.unpublished = true, section(archive, "unpublished") != ""
	var err error
	c.s.BrowserPlays = section(archive, "plays") != ""
	c.s.KeepSound = section(archive, "recorded") != ""
	if c.s.Announcement = strings.TrimSpace(section(archive, "notice")); c.s.Announcement != "" {
		c.s.NoticeFirst, c.s.Greeting = true, "Hello!"
	}
	c.s.MaskKeys = section(archive, "masked") != ""
	c.s.FillerTone = section(archive, "tone") != ""
	c.s.EndCall = section(archive, "may end") != ""
	c.s.Transfers = section(archive, "may transfer") != ""
	if limit := section(archive, "limit"); limit != "" {
		if c.s.up.limit, err = strconv.Atoi(strings.TrimSpace(limit)); err != nil {
			t.Fatal(err)
		}
	}
	if grace := section(archive, "grace"); grace != "" {
		if c.s.CloseGrace, err = time.ParseDuration(strings.TrimSpace(grace)); err != nil {
			t.Fatal(err)
		}
	}
	if word := section(archive, "first word"); word != "" {
		if c.s.FirstWord, err = time.ParseDuration(strings.TrimSpace(word)); err != nil {
			t.Fatal(err)
		}
	}
	if filler := section(archive, "filler"); filler != "" {
		after, lines, _ := strings.Cut(strings.TrimSpace(filler), "\n")
		if c.s.FillerAfter, err = time.ParseDuration(after); err != nil {
			t.Fatal(err)
		}
		c.s.FillerLines = slices.Collect(strings.SplitSeq(lines, "\n"))
		if lines == "" {
			c.s.FillerLines = nil
		}
	}
	if rules := section(archive, "interruption"); rules != "" {
		if err := json.Unmarshal([]byte(rules), &c.s.Session.Interruption); err != nil {
			t.Fatal(err)
		}
	}
	if renew := section(archive, "renew"); renew != "" {
		if c.s.RenewBefore, err = time.ParseDuration(strings.TrimSpace(renew)); err != nil {
			t.Fatal(err)
		}
	}
	if fixed := section(archive, "fixed"); fixed != "" {
		c.s.Fixed, c.s.MayChange = true, strings.Fields(section(archive, "may change"))
		var refused *realtime.Error
		if c.s.Patch, refused = c.s.Session.Read([]byte(fixed), true); refused != nil {
			t.Fatal(refused)
		}
	}
	for which, is := range map[string]bool{"can": true, "cannot": false} {
		for name := range strings.FieldsSeq(section(archive, which)) {
			reflect.ValueOf(&c.s.UpstreamCan).Elem().FieldByName(name).SetBool(is)
		}
	}
	c.s.up.can = c.s.UpstreamCan
	if section(archive, "dialing") != "" {
		c.s.UpstreamLimit, c.s.up = 0, c.s.newUpstream(1)
	}
	if others := section(archive, "others"); others != "" {
		if c.s.Others, err = strconv.Atoi(strings.TrimSpace(others)); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "\t") {
			continue
		}
		c.out.WriteString(line + "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		c.play(line)
	}
	return c.out.String()
}

// newTestState makes a state without a call around it.
func newTestState(t testing.TB, f Config) *State {
	t.Helper()
	registry := toolkit.NewRegistry()
	for _, tool := range charts.Tools()[:2] {
		testkit.Must(t, registry.Add(toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp}))
	}
	testkit.Must(t, registry.Add(toolkit.Entry{Tool: cancelTool{}, Executor: toolkit.ExecutorApp}))
	f.Approve = toolkit.MustNames("create_line_chart", "paint")
	f.CallID, f.Key = "call-1", thread.Key{Owner: "ada", Thread: "thread-1"}
	f.Session = Defaults{Model: "model-1", Voice: "marin", TranscriptionModel: "words-1", Instructions: "SECRET"}
	f.UpstreamLimit, f.BrowserLimit, f.ReplayMessages = 256<<10, 64<<10, 20
	f.UpstreamCan = Capabilities{OutputBuffer: true, Truncation: true, TruncatesItself: true, Deletion: true, Images: true, ResponseSettings: true, CallItems: true}
	f.ItemPrefix = "vb"
	f.Cost = func(string, string, realtime.Usage) *float64 { return nil }
	f.NewID = func(_ time.Time, n int) string { return fmt.Sprintf("id-%d", n) }
	return New(f, records.Call{ID: f.CallID, ThreadID: "thread-1"}, registry, epoch)
}

var epoch = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func newScripted(t *testing.T, threadID string) *scripted {
	t.Helper()
	var history []thread.Message
	for line := range strings.Lines(threadID) {
		role, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		history = append(history, thread.Message{
			ID: fmt.Sprintf("old-%d", len(history)+1), Role: thread.Role(role), Parts: []thread.Part{thread.TextPart(text)},
		})
	}
	f := Config{History: history}
	if n := len(history); n > 0 {
		f.LastMessage = history[n-1].ID
	}
	return &scripted{t: t, thread: history, s: newTestState(t, f), now: epoch}
}

func (c *scripted) play(line string) {
	verb, rest, _ := strings.Cut(line, " ")
	state, isState := strings.CutPrefix(rest, "is ")
	switch {
	case strings.HasPrefix(verb, "+"):
		c.pass(verb[1:])
	case len(verb) == 3 && strings.HasPrefix(verb, "up"):
		gen := int(verb[2] - '0')
		switch {
		case isState:
			c.reduce(UpstreamState{Gen: gen, State: states[state]})
		case rest == "dialed other":
			c.reduce(UpstreamDialed{Gen: gen, ID: fmt.Sprintf("rtc_%d", gen), Limit: 128 << 10, Can: c.s.UpstreamCan, Route: Route{Name: "other", Model: "model-2"}})
		case rest == "dialed":
			c.reduce(UpstreamDialed{Gen: gen, ID: fmt.Sprintf("rtc_%d", gen), Limit: 256 << 10, Can: c.s.UpstreamCan})
		case rest == "caught up":
			c.reduce(HeldSent{Gen: gen})
		case rest == "refused", rest == "fatal":
			c.reduce(UpstreamDialFailed{Gen: gen, Fatal: rest == "fatal", Err: &realtime.APIError{Status: 503}, Refusal: realtime.Error{Type: "upstream_error", Code: "refused", Message: "No."}})
		case strings.HasPrefix(rest, "refused for "):
			wait, err := time.ParseDuration(strings.TrimPrefix(rest, "refused for "))
			testkit.Must(c.t, err)
			c.reduce(UpstreamDialFailed{Gen: gen, RetryAfter: wait, Err: errors.New("429")})
		default:
			c.reduce(UpstreamEvent{Gen: gen, Data: []byte(rest)})
		}
	case len(verb) == 2 && strings.HasPrefix(verb, "s"):
		side := int(verb[1] - '0')
		switch rest {
		case "joins":
			c.reduce(SidebandJoined{ID: side})
		case "goes":
			c.reduce(SidebandGone{ID: side})
		default:
			c.reduce(BrowserEvent{Side: side, Data: []byte(rest)})
		}
	case verb == "br" && rest == "joins":
		c.reduce(BrowserJoined{Gen: c.s.browserLeg.gen + 1, Limit: 64 << 10, Plays: c.s.BrowserPlays})
	case verb == "br" && rest == "restarts":
		c.reduce(BrowserRestarted{Gen: c.s.browserLeg.gen})
	case verb == "up" && isState:
		c.reduce(UpstreamState{Gen: c.s.up.gen, State: states[state]})
	case verb == "br" && isState:
		c.reduce(BrowserState{Gen: c.s.browserLeg.gen, State: states[state]})
	case verb == "up":
		c.reduce(UpstreamEvent{Gen: c.s.up.gen, Data: []byte(rest)})
	case verb == "br", verb == "server":
		in := BrowserEvent{Gen: c.s.browserLeg.gen, Server: verb == "server"}
		if held, ok := strings.CutPrefix(rest, "holding "); ok {
			in.Sent.Pending = []string{held[:strings.IndexByte(held, ' ')]}
			rest = held[len(in.Sent.Pending[0])+1:]
		}
		if told, ok := strings.CutPrefix(rest, "told "); ok {
			in.Sent.Done, in.Sent.At = told[:strings.IndexByte(told, ' ')], c.now
			rest = told[len(in.Sent.Done)+1:]
		}
		in.Data = []byte(rest)
		c.reduce(in)
	case verb == "tool":
		rest, image, shown := strings.Cut(rest, " image ")
		id, output, _ := strings.Cut(rest, " ")
		result := toolkit.Result{Output: json.RawMessage(output)}
		if words, failed := strings.CutPrefix(output, "!"); failed {
			result = toolkit.Result{Error: words}
		}
		end := ToolEnd{CallID: id, Result: result, Masked: result.Masked()}
		if shown {
			end.Images = []string{image}
		}
		c.reduce(end)
	case verb == "wrote":
		id, message, _ := strings.Cut(rest, " ")
		c.reduce(ToolProgress{CallID: id, Chunk: toolkit.Chunk{Message: "It writes.", MessageID: message}})
	case verb == "sound":
		c.reduce(SoundSent{ResponseID: rest, At: c.now})
	case verb == "inner":
		id, data, _ := strings.Cut(rest, " ")
		var in toolkit.Inner
		testkit.Must(c.t, json.Unmarshal([]byte(data), &in))
		c.reduce(ToolProgress{CallID: id, Chunk: toolkit.Chunk{Message: "It works.", Inner: &in}})
	case verb == "tools":
		var entries []toolkit.Entry
		for _, tool := range charts.Tools() {
			if slices.Contains(strings.Fields(rest), tool.Definition().Name) {
				entries = append(entries, toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp})
			}
		}
		c.reduce(NewTools{Entries: entries})
	case verb == "say":
		c.texts++
		c.reduce(ServerText{MessageID: fmt.Sprintf("said-%d", c.texts), Text: rest})
	case verb == "keys":
		c.texts++
		c.reduce(ServerText{MessageID: fmt.Sprintf("said-%d", c.texts), Text: "DTMF: " + rest, Source: thread.SourceKeys})
	case verb == "deliver":
		c.reduce(ServerText{MessageID: "queued-1", Text: rest, Queued: "q-1"})
	case verb == "typed":
		id, words, _ := strings.Cut(rest, " ")
		c.thread = append(c.thread, thread.Message{ID: id, Role: thread.RoleAssistant, Parts: []thread.Part{thread.TextPart(words)}})
		c.reduce(Written{Messages: c.thread})
	case verb == "record":
		c.reduce(SetRecording{State: RecordingState(rest)})
	case verb == "transfer":
		id, words, _ := strings.Cut(rest, " ")
		c.reduce(Transfer{CallID: id, Says: words, May: make(chan bool, 1)})
	case verb == "interrupt":
		c.reduce(Interrupt{})
	case verb == "forget":
		c.reduce(ContextReset{})
	case verb == "stop":
		c.reduce(Stop{Reason: EndReason(rest)})
	default:
		c.t.Fatalf("unknown input %q", line)
	}
}

var states = map[string]Connection{"connected": Connected, "closed": Closed, "failed": Failed, "disconnected": Disconnected}

// pass lets time pass and wakes the state when it asked for it.
func (c *scripted) pass(text string) {
	d, err := time.ParseDuration(text)
	testkit.Must(c.t, err)
	end := c.now.Add(d)
	for range 1000 {
		at := c.s.Deadline()
		if at.IsZero() || at.After(end) || c.s.Over() {
			c.now = end
			return
		}
		if at.After(c.now) {
			c.now = at
		}
		c.reduce(Tick{})
	}
	c.t.Fatal("the state asks to be woken without an end")
}

func (c *scripted) reduce(in Input) {
	raw, _ := in.(UpstreamEvent)
	var copied *twin
	if c.twice {
		copied = copyOf(c.s)
	}
	effects := c.s.Reduce(c.now, in)
	if copied != nil {
		copied.same(c.t, c.s, effects, copied.s.Reduce(c.now, in))
	}
	for _, e := range effects {
		c.published(e)
		text := show(c.t, e)
		if b, ok := e.(ToBrowser); ok && bytes.Equal(b.Data, raw.Data) {
			text = strings.TrimSuffix("→br as it came, "+map[bool]string{true: "draft"}[b.Draft], ", ")
		}
		fmt.Fprintf(&c.out, "\t%s\n", text)
	}
}

// nulls are those that OpenAI sends although its document does not say so.
var nulls = []string{"previous_item_id", "turn_detection", "noise_reduction", "transcription", "status_details", "usage", "transcript", "tracing", "prompt"}

// published holds the events that the call makes against OpenAI's own document. What comes from the upstream is told as it came; a
// transcript has only what matters of it.
func (c *scripted) published(e Effect) {
	var err error
	switch e := e.(type) {
	case ToUpstream:
		err = realtimetest.Published(realtimetest.FromClient, e.Data, nulls...)
	case ToBrowser:
		if bytes.Contains(e.Data, []byte(`"event_id":"event_`)) {
			err = realtimetest.Published(realtimetest.FromServer, e.Data, nulls...)
		}
	case ToSideband:
		if bytes.Contains(e.Data, []byte(`"event_id":"event_`)) {
			err = realtimetest.Published(realtimetest.FromServer, e.Data, nulls...)
		}
	}
	if err != nil && !c.unpublished {
		c.t.Errorf("%v, of %s", err, show(c.t, e))
	}
}

// show is an effect in one line.
func show(t *testing.T, e Effect) string {
	t.Helper()
	switch e := e.(type) {
	case ToUpstream:
		if e.Gen > 1 {
			return fmt.Sprintf("→up%d %s", e.Gen, compact(e.Data))
		}
		return "→up " + compact(e.Data)
	case ToBrowser:
		if e.Draft {
			return "→br draft " + compact(e.Data)
		}
		return "→br " + compact(e.Data)
	case ToSideband:
		if e.Draft {
			return fmt.Sprintf("→s%d draft %s", e.ID, compact(e.Data))
		}
		return fmt.Sprintf("→s%d %s", e.ID, compact(e.Data))
	case EndSideband:
		return fmt.Sprintf("end s%d", e.ID)
	case Dial:
		return fmt.Sprintf("dial %d%s", e.Gen, showHistory(e.History))
	case Replay:
		return fmt.Sprintf("replay %d", e.Gen)
	case Append:
		return fmt.Sprintf("append %d%s", e.Gen, showHistory(e.Messages))
	case Switch:
		return fmt.Sprintf("switch %d", e.Gen)
	case AwaitSound:
		return "await sound of " + e.ResponseID
	case HangUp:
		return fmt.Sprintf("hang up %d %s hold=%t", e.Gen, e.Reason, e.Hold)
	case TurnOver:
		var text strings.Builder
		text.WriteString("turn over:")
		for _, r := range e.Turn.Responses {
			text.WriteString(" " + r.UpstreamID)
		}
		for _, r := range e.Turn.Charges {
			text.WriteString(" " + string(r.Kind))
		}
		if len(e.Turn.Latency) > 0 {
			text.WriteString(fmt.Sprint(" ", e.Turn.Latency))
		}
		return text.String()
	case Count:
		return "count " + string(e.What)
	case Write:
		return "save " + showChange(e.Change)
	case Publish:
		return "tell " + string(e.Kind) + " " + string(encode(e.Data))
	case Tell:
		return "tell " + string(e.Kind) + " " + string(encode(e.Data))
	case ReplaceTools:
		return fmt.Sprintf("replace tools %q by %q", e.Remove, namesOf(e.Add))
	case DeclareTools:
		names := []string{}
		for _, d := range e.Tools {
			names = append(names, d.Name)
		}
		return fmt.Sprintf("declare tools %q", names)
	case AwaitApproval:
		return "await approval of " + e.CallID
	case StartTool:
		lends := map[bool]string{true: " with the clients' tools"}[e.Lends]
		return "run " + e.Call.ID + " " + e.Call.Name + " " + e.Call.Arguments + lends
	case AnswerApproval:
		return fmt.Sprintf("answer %s %s approved=%t", e.CallID, e.Nonce, e.Approved)
	case CancelTool:
		return "cancel " + e.CallID
	case DeliverTool:
		return "deliver " + e.CallID + " " + e.Output
	case Tone:
		return fmt.Sprintf("tone on=%t", e.On)
	case Gate:
		return fmt.Sprintf("gate open=%t", e.Open)
	case Record:
		return fmt.Sprintf("record %t", e.On)
	case Answer:
		return fmt.Sprintf("answer %t", e.Yes)
	case Log:
		return "log " + e.Message
	case Finish:
		return "finish " + string(e.Reason)
	}
	t.Fatalf("unknown effect %T", e)
	return ""
}

// showHistory is what a model is told.
func showHistory(msgs []thread.Message) string {
	var b strings.Builder
	for _, m := range msgs {
		fmt.Fprintf(&b, " | %s", m.Role)
		for _, p := range m.Parts {
			switch {
			case p.IsTool():
				fmt.Fprintf(&b, " [%s %s]", p.ToolCallID, p.State)
			case p.Type == "text" && m.Metadata.HeardText != nil:
				fmt.Fprintf(&b, " heard %q", *m.Metadata.HeardText)
			case p.Type == "text":
				fmt.Fprintf(&b, " %q", p.Text)
			}
		}
	}
	return b.String()
}

// cancelTool stands for the tool of that name, whose calls the state answers.
type cancelTool struct{}

func (cancelTool) Definition() toolkit.Definition {
	return toolkit.Definition{Name: CancelToolName, Parameters: json.RawMessage(`{"type":"object"}`)}
}

func (cancelTool) Call(context.Context, toolkit.Call) iter.Seq2[toolkit.Chunk, error] { return nil }

// compact is an event without the schemas of tools.
func compact(data []byte) string {
	var v map[string]any
	if json.Unmarshal(data, &v) != nil {
		return string(data)
	}
	if session, ok := v["session"].(map[string]any); ok {
		if tools, ok := session["tools"].([]any); ok {
			names := []string{}
			for _, tool := range tools {
				names = append(names, tool.(map[string]any)["name"].(string))
			}
			session["tools"] = names
		}
	}
	return string(encode(v))
}

func showChange(o persistence.Change) string {
	switch o := o.(type) {
	case persistence.PutMessage:
		m := o.Message
		text := fmt.Sprintf("message %s %s %s %s", m.ID, m.Role, m.Metadata.Source, m.Metadata.Status)
		switch o.Place.How {
		case persistence.PlaceLast:
			text += " last"
		case persistence.PlaceAfter:
			text += fmt.Sprintf(" after %q", o.Place.After)
		case persistence.PlaceKept:
		}
		parts, err := json.Marshal(m.Parts)
		if err != nil {
			return err.Error()
		}
		text += " " + string(parts)
		if h := m.Metadata.HeardText; h != nil {
			text += fmt.Sprintf(" heard %q %dms", *h, *m.Metadata.AudioEndMS)
		}
		if at := m.Metadata.Audio; at != nil {
			text += fmt.Sprintf(" recorded %d-%d ms", at.StartMS, at.EndMS)
		}
		if why := m.Metadata.Extra[thread.MetadataFinish]; why != nil {
			text += " cut by " + string(why)
		}
		if n := m.Metadata.Extra[metaResumed]; n != nil {
			text += " resumed " + string(n)
		}
		if m.Metadata.Extra[thread.MetadataDeleted] != nil {
			text += " deleted"
		}
		if len(m.Metadata.LatencyMS) > 0 {
			text += fmt.Sprint(" ", m.Metadata.LatencyMS)
		}
		return text
	case persistence.PutDraft:
		return fmt.Sprintf("draft %s at %d %q", o.MessageID, o.Start, o.Text)
	case persistence.PutToolCall:
		c := o.ToolCall
		return fmt.Sprintf("tool %s %s %s %s in=%s out=%s error=%q", c.ToolCallID, c.Name, c.Executor, c.Status, c.Input, c.Output, c.Error)
	case persistence.PutApproval:
		return fmt.Sprintf("approval %s %q by=%q", o.Approval.ToolCallID, o.Approval.Outcome, o.Approval.AnsweredBy)
	case persistence.PutResponse:
		kind := o.Response.Kind
		if kind == "" {
			kind = records.KindResponse
		}
		text := fmt.Sprintf("%s %s %s %s", kind, o.Response.UpstreamID, o.Response.Status, o.Response.StatusReason)
		if o.Response.Estimated {
			text += " estimated"
		}
		if o.Response.AnswerMS != nil {
			text += fmt.Sprintf(" answer=%dms", *o.Response.AnswerMS)
		}
		return text
	case persistence.PutCall:
		return fmt.Sprintf("call ready=%t ended=%t %s turns=%d interruptions=%d replayed=%d", o.Call.ReadyAt != nil, o.Call.EndedAt != nil,
			o.Call.EndReason, o.Call.Turns, o.Call.Interruptions, o.Call.Replayed)
	}
	return fmt.Sprintf("%T", o)
}
