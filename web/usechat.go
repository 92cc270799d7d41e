package web

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// maxChatBody limits the body of a useChat request, which contains the whole conversation with its
// images. Only its last message is read.
const maxChatBody = 16 << 20

// useChat is what the AI SDK's useChat sends by default:
// https://ai-sdk.dev/docs/ai-sdk-ui/transport.
type useChat struct {
	Messages  []uiMessage `json:"messages"`
	Trigger   string      `json:"trigger"`
	MessageID string      `json:"messageId"`
}

const triggerRegenerate = "regenerate-message"

// uiMessage is the part of an AI SDK message that a request needs.
type uiMessage struct {
	ID    string   `json:"id"`
	Role  string   `json:"role"`
	Parts []uiPart `json:"parts"`
}

type uiPart struct {
	Type       string `json:"type"`
	Text       string `json:"text"`
	MediaType  string `json:"mediaType"`
	URL        string `json:"url"`
	ToolCallID string `json:"toolCallId"`
	State      string `json:"state"`
	Approval   struct {
		ID       string `json:"id"`
		Approved *bool  `json:"approved"`
	} `json:"approval"`
}

// userInput returns the text and the images of a message.
func (m *uiMessage) userInput() (text string, images []chat.Image) {
	var texts []string
	for _, p := range m.Parts {
		switch p.Type {
		case "text":
			texts = append(texts, p.Text)
		case "file":
			images = append(images, chat.Image{MediaType: p.MediaType, URL: p.URL})
		}
	}
	return strings.Join(texts, "\n"), images
}

// imageIDs returns the ids of the message's images; ok is false if one is not of the thread.
func (m *uiMessage) imageIDs(thread string) (ids []string, ok bool) {
	for _, p := range m.Parts {
		if p.Type != "file" {
			continue
		}
		id, isOfThread := strings.CutPrefix(p.URL, persistence.ImagePath(thread))
		if !isOfThread || id == "" {
			return nil, false
		}
		ids = append(ids, id)
	}
	return ids, true
}

// decisions returns the user's decisions on approvals in an assistant message.
func (m *uiMessage) decisions(by string) []chat.Decision {
	var all []chat.Decision
	for _, p := range m.Parts {
		if p.State == "approval-responded" && p.Approval.Approved != nil {
			all = append(all, chat.Decision{ToolCallID: p.ToolCallID, Nonce: p.Approval.ID, Approved: *p.Approval.Approved, By: by})
		}
	}
	return all
}

// postChat answers useChat, always with a stream. When the client goes away, which is how its stop
// works, the turn ends.
func (h *turns) postChat(c echo.Context, key persistence.Key, body *useChat, instructions []string) error {
	if len(body.Messages) == 0 {
		return problem.BadRequest("empty_content", "messages", "messages is empty.")
	}
	inStates, err := sdkAsksInStates(c)
	if err != nil {
		return err
	}
	last := &body.Messages[len(body.Messages)-1]
	if decided := last.decisions(key.Owner); last.Role == string(persistence.RoleAssistant) && body.Trigger != triggerRegenerate {
		if len(decided) == 0 {
			return problem.BadRequest("invalid_value", "messages", "The last message must be from the user, or hold answers to approvals.")
		}
		return h.resumeTurn(c, key, decided)
	}
	text, images := last.userInput()
	if ids, ok := last.imageIDs(key.Thread); ok && body.Trigger != triggerRegenerate {
		if said, err := h.say(c, key, text, ids, instructions); said || err != nil {
			return orThread(err)
		}
	}
	var turn *chat.Turn
	begin := func() (t anyTurn, err error) {
		turn, err = h.beginChat(c.Request().Context(), key, body, chat.TurnRequest{Key: key, Text: text, Images: images, Instructions: instructions})
		return turn, orThread(err)
	}
	err = h.streams.tell(c, key, -1, begin, streamForm{inStates: inStates})
	if turn != nil && c.Request().Context().Err() != nil {
		turn.Interrupt()
	}
	return err
}

// beginChat begins the turn that useChat asks for. A retried request does not repeat a message that
// is already in the thread.
func (h *turns) beginChat(ctx context.Context, key persistence.Key, body *useChat, req chat.TurnRequest) (*chat.Turn, error) {
	last := &body.Messages[len(body.Messages)-1]
	if body.Trigger == triggerRegenerate {
		asked, err := h.chat.Asked(ctx, key, body.MessageID)
		if err != nil {
			return nil, err
		}
		return h.chat.Turn(ctx, chat.TurnRequest{Key: key, Saved: true, Replace: true, MessageID: asked, Instructions: req.Instructions})
	}
	if input.ValidID(last.ID, persistence.MaxIDBytes) {
		req.MessageID = last.ID
		asked, err := h.chat.Asked(ctx, key, last.ID)
		if err == nil && asked == last.ID {
			return h.chat.Turn(ctx, chat.TurnRequest{Key: key, Saved: true, Replace: true, MessageID: asked, Instructions: req.Instructions})
		}
	}
	t, err := h.chat.Turn(ctx, req)
	if errors.Is(err, persistence.ErrConflict) { // another owner's message has this id
		req.MessageID = ""
		t, err = h.chat.Turn(ctx, req)
	}
	return t, err
}

// resumeTurn takes the decisions on approvals, and resumes the stream that ended at the questions.
func (h *turns) resumeTurn(c echo.Context, key persistence.Key, decided []chat.Decision) error {
	answered := map[string]bool{}
	for _, d := range decided {
		err := h.chat.Decide(c.Request().Context(), key, d)
		if err != nil && !errors.Is(err, chat.ErrNotAsked) { // those of earlier turns stay in the message
			return orThread(err)
		}
		if err == nil {
			answered[d.ToolCallID] = true
		}
	}
	notAsked := &chat.CallError{CallID: decided[len(decided)-1].ToolCallID, Err: chat.ErrNotAsked}
	if len(answered) == 0 {
		return notAsked
	}
	form := streamForm{inStates: true, after: answered}
	if t := h.chat.Running(key); t != nil {
		err := h.streams.tell(c, key, -1, func() (anyTurn, error) { return t, nil }, form)
		if c.Request().Context().Err() != nil {
			t.Interrupt()
		}
		return err
	}
	t, err := h.chat.Follow(c.Request().Context(), key)
	if errors.Is(err, chat.ErrIdle) {
		return notAsked
	}
	if err != nil {
		return orThread(err)
	}
	form.unnumbered = true
	err = h.streams.tell(c, key, -1, func() (anyTurn, error) { return t, nil }, form)
	if ctx := c.Request().Context(); ctx.Err() != nil {
		_ = h.chat.Interrupt(context.WithoutCancel(ctx), key) // nobody is there to be told
	}
	return err
}

// sdkAsksInStates reads ?sdk=N, the AI SDK's major version: from 6 on, approvals are states of a
// tool's part. Earlier versions fail on them.
func sdkAsksInStates(c echo.Context) (bool, error) {
	generation := c.QueryParam("sdk")
	if generation == "" {
		return false, nil
	}
	n, err := strconv.Atoi(generation)
	if err != nil || n < 5 || n > 99 {
		return false, problem.BadRequest("invalid_value", "sdk", "sdk must be the major version of the AI SDK: 5, 6 or 7.")
	}
	return n >= 6, nil
}

// streamForm says in which form a turn is streamed.
type streamForm struct {
	inStates bool            // approvals are states of a tool's part, at which the stream ends
	after    map[string]bool // calls for which everything up to the approval was already sent
	// unnumbered omits the ids with which a client resumes: another process numbers the events
	// differently.
	unnumbered bool
}

// rest removes from a turn's events what was sent before the approvals of some calls, except the
// beginning of the message.
func rest(events iter.Seq2[chat.Event, error], after map[string]bool) iter.Seq2[chat.Event, error] {
	return func(yield func(chat.Event, error) bool) {
		left := len(after)
		for e, err := range events {
			told := left > 0
			if e.Type == chat.EventToolApproval && after[e.Call.ID] {
				left--
			}
			if told && err == nil && e.Type != chat.EventStart && e.Type != chat.EventFinish && !answers(e, after) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// answers reports whether an event is the outcome of the approval of one of the calls.
func answers(e chat.Event, calls map[string]bool) bool {
	return (e.Type == chat.EventToolDecided || e.Type == chat.EventToolOutput) && calls[e.Call.ID]
}

// readUseChat reads the body of useChat from a request's; ok is false for other bodies.
func readUseChat(messages json.RawMessage, trigger, messageID string) (body *useChat, ok bool, err error) {
	if len(messages) == 0 {
		return nil, false, nil
	}
	body = &useChat{Trigger: trigger, MessageID: messageID}
	if json.Unmarshal(messages, &body.Messages) != nil {
		return nil, true, problem.BadRequest("invalid_value", "messages", "messages must be a list of the AI SDK's UIMessages.")
	}
	return body, true, nil
}
