package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"voicebridge/thread"
	"voicebridge/toolkit"
)

// AskAgentName is the name of the tool of [Coordinator.AskAgent].
const AskAgentName = "ask_agent"

const (
	// askTimeout is how long the agent may take to answer.
	askTimeout = 2 * time.Minute
	// maxQuestion limits a question, in characters.
	maxQuestion = 8000
	// maxSpoken is how much of an answer the voice model receives, in bytes, and maxAnswerKept how much the tool call
	// keeps. The agent's message has all of it.
	maxSpoken, maxAnswerKept = 4000, 64 << 10
	// askEvery is the time between reports of the text so far.
	askEvery = 300 * time.Millisecond
	// askGrace is how long to wait for a turn that was stopped.
	askGrace = 300 * time.Millisecond
)

// askInstructions follow the system prompt of a turn that answers a tool call.
const askInstructions = "The question comes from a voice assistant that speaks with the user on this conversation, " +
	"and passes your answer on by voice. Use your tools as needed, then answer in a few plain sentences without " +
	"markup. The user sees what you draw."

// AskAgent returns a tool for voice calls: it passes a question to the agent that answers by text, on the same thread
// and with the server's tools, and its result is the answer. The question is only the input of the tool call, not a
// message; the answer is a message, whose metadata names the tool call ([thread.MetadataAskedBy]). A thread runs
// one turn at a time, so the second of two tool calls is told that the agent is busy. Cancelling the tool call
// interrupts the turn, the end of the voice call ([toolkit.ErrCallEnded]) does not.
func (c *Coordinator) AskAgent() toolkit.Tool { return askAgent{c} }

type askAgent struct{ c *Coordinator }

func (askAgent) Definition() toolkit.Definition {
	return toolkit.Definition{
		Name: AskAgentName,
		Description: "Hands a question or a task to an agent that thinks longer than you and has more tools. It " +
			"knows this conversation. Use it for what you cannot do well yourself: research, several steps, long " +
			"or exact work. Say that it takes a moment, ask one question at a time, and tell the user the answer " +
			"in your own words. What the agent draws is on the user's screen.",
		Parameters: json.RawMessage(
			fmt.Sprintf(`{"type":"object","properties":{"question":{"type":"string","minLength":1,"maxLength":%d,`+
				`"description":"What the agent is to find out or do, complete and in plain words"}},`+
				`"required":["question"],"additionalProperties":false}`, maxQuestion)),
	}
}

func (askAgent) Timeout() time.Duration { return askTimeout }

// Call runs a turn and reports its progress.
func (a askAgent) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		var in struct {
			Question string `json:"question"`
		}
		if err := json.Unmarshal([]byte(call.Arguments), &in); err != nil {
			yield(toolkit.Chunk{}, fmt.Errorf("read the question: %w", err)) // checked against the schema
			return
		}
		key := thread.Key{Owner: call.Owner, Thread: call.ThreadID}
		turn, err := a.c.Turn(ctx,
			TurnRequest{
				Key: key, Question: in.Question, AskedBy: call.ID, System: askInstructions, Unlimited: true,
				Lent: call.Lent, Secrets: call.Secrets,
			})
		if err != nil {
			yield(toolkit.Chunk{Result: &toolkit.Result{Error: a.refusal(err)}}, nil)
			return
		}
		defer leaveTurn(ctx, turn)
		if !yield(toolkit.Chunk{Message: "The agent is thinking.", MessageID: turn.MessageID()}, nil) {
			return
		}
		var p askProgress
		for e, err := range turn.Events(ctx, 0) {
			if err != nil {
				yield(toolkit.Chunk{}, err)
				return
			}
			if e.Type == EventFinish {
				result := answerOf(e.Result)
				yield(toolkit.Chunk{Result: &result}, nil)
				return
			}
			if c, ok := p.take(e); ok && !yield(c, nil) {
				return
			}
		}
	}
}

// leaveTurn stops a turn that nobody is waiting for, and lets it save its text so far. A turn that
// has ended is left alone, and so is one whose caller has hung up: its answer is for the next call.
func leaveTurn(ctx context.Context, turn *Turn) {
	if errors.Is(context.Cause(ctx), toolkit.ErrCallEnded) {
		return
	}
	turn.Interrupt()
	select {
	case <-turn.Done():
	case <-time.After(askGrace):
	}
}

// refusal returns what the model is told about a turn that did not begin.
func (a askAgent) refusal(err error) string {
	switch {
	case errors.Is(err, ErrBusy):
		return "the agent is busy with another task on this conversation: wait for its answer before you ask again"
	case errors.Is(err, ErrEmpty):
		return "the question is empty"
	case errors.Is(err, ErrClosed):
		return ErrClosed.Error()
	default:
		a.c.log.Warn("agent not asked", "error", err)
		return "the agent cannot be reached now"
	}
}

// answerOf makes the tool's result from that of the turn.
func answerOf(r *Result) toolkit.Result {
	answer := lastWords(r)
	switch {
	case r.Err != nil:
		return toolkit.Result{Error: "the agent failed: " + r.Err.Message}
	case r.Finish == FinishInterrupted && answer == "":
		return toolkit.Result{Error: "the agent was stopped before it had an answer"}
	case r.Finish == FinishInterrupted:
		return toolkit.Result{
			Error: "the agent was stopped before it had finished; so far it said: " + cutWords(answer, maxSpoken/2),
		}
	}
	return toolkit.Result{
		Output: toolkit.Encode(map[string]string{"answer": cutWords(answer, maxAnswerKept), "message_id": r.MessageID}),
		Model:  cutWords(answer, maxSpoken),
	}
}

// lastWords returns the text of the last step that has any: what was said before using tools is no
// use to whoever waits for the answer.
func lastWords(r *Result) string {
	var words []string
	for _, p := range r.Message.Parts {
		switch {
		case p.IsTool():
			words = nil
		case strings.TrimSpace(p.Text) != "":
			words = append(words, p.Text)
		}
	}
	if len(words) == 0 {
		return strings.TrimSpace(r.Text)
	}
	return strings.TrimSpace(strings.Join(words, "\n"))
}

// cutWords shortens text to n bytes at a character boundary, and says so.
func cutWords(text string, n int) string {
	const note = "\n[The answer goes on. The user can read all of it on the screen.]"
	if len(text) <= n {
		return text
	}
	return toolkit.Head(text, n-len(note)) + note
}

// askProgress turns the events of a turn into the progress of the tool.
type askProgress struct {
	text       strings.Builder
	reportedAt time.Time
}

// askData is the data of a progress chunk.
type askData struct {
	// Text is what the agent has written so far.
	Text string `json:"text,omitempty"`
	// Tool is the tool that it is using, State its state: running, approval, done or failed.
	Tool  string `json:"tool,omitempty"`
	State string `json:"state,omitempty"`
}

func (p *askProgress) take(e Event) (toolkit.Chunk, bool) {
	switch e.Type {
	case EventTextStart:
		if p.text.Len() > 0 {
			p.text.WriteByte('\n')
		}
	case EventTextDelta:
		p.text.WriteString(e.Delta)
		if p.text.Len() > maxSpoken || time.Since(p.reportedAt) < askEvery {
			return toolkit.Chunk{}, false
		}
		p.reportedAt = time.Now()
		return toolkit.Chunk{
			Message: "The agent is writing.", Data: toolkit.Encode(askData{Text: p.text.String()}),
		}, true
	case EventToolInput:
		return toolStep(e.Call, "running", "The agent is using "+e.Call.Name+"."), true
	case EventToolApproval:
		return toolStep(e.Call, "approval", "The agent asks whether it may use "+e.Call.Name+"."), true
	case EventToolDecided:
		return toolStep(e.Call, "running", "The agent has its answer about "+e.Call.Name+"."), e.Call.Approved
	case EventToolProgress:
		c := toolStep(e.Call, "running", e.Call.Name+": "+e.Call.Message)
		c.Percent, c.Inner = e.Call.Percent, nil
		return c, true
	case EventToolOutput:
		c := toolStep(e.Call, "done", e.Call.Name+" is done.")
		if e.Call.Error != "" {
			c = toolStep(e.Call, "failed", e.Call.Name+" failed.")
		}
		c.Inner.Result = &toolkit.Result{Output: e.Call.Output, Error: e.Call.Error}
		return c, true
	}
	return toolkit.Chunk{}, false
}

func toolStep(call *EventCall, state, message string) toolkit.Chunk {
	return toolkit.Chunk{
		Message: message, Data: toolkit.Encode(askData{Tool: call.Name, State: state}),
		Inner: &toolkit.Inner{
			Call:     toolkit.Call{ID: call.ID, Name: call.Name, Arguments: cmp.Or(call.Arguments, string(call.Input))},
			Executor: call.Executor, Server: call.Server, Asks: call.Asks, Nonce: call.Nonce,
		},
	}
}
