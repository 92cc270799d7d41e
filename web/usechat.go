package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// useChat is what the AI SDK's useChat sends by default, with the last of the messages:
// https://ai-sdk.dev/docs/ai-sdk-ui/transport.
type useChat struct {
	Messages  []uiMessage `json:"messages"`
	Trigger   string      `json:"trigger"`
	MessageID string      `json:"messageId"`
}

var errNoMessages = problem.Invalid("messages", "messages must be a list of the AI SDK's UIMessages.")

const triggerRegenerate = "regenerate-message"

// uiMessage is the part of an AI SDK message that a request needs.
type uiMessage struct {
	ID    string  `json:"id"`
	Role  string  `json:"role"`
	Parts uiParts `json:"parts"`
}

// maxUIParts limits the parts of a message, of which each takes more memory than its text.
const maxUIParts = 1000

type uiParts []uiPart

// UnmarshalJSON reads a message's parts if they are not too many.
func (p *uiParts) UnmarshalJSON(data []byte) error {
	var all []json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	if len(all) > maxUIParts {
		return problem.TooLarge("messages", fmt.Sprintf("The last message has more than %d parts.", maxUIParts))
	}
	*p = make(uiParts, len(all))
	for i, one := range all {
		if err := json.Unmarshal(one, &(*p)[i]); err != nil {
			return err
		}
	}
	return nil
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
	other thread.Part // the whole part, if it is neither text nor file
}

// UnmarshalJSON reads any part.
func (p *uiPart) UnmarshalJSON(data []byte) error {
	type fields uiPart
	if err := json.Unmarshal(data, (*fields)(p)); err != nil || p.Type == "text" || p.Type == "file" {
		return err
	}
	_ = p.other.UnmarshalJSON(data) // without a type it is nothing to keep
	return nil
}

// idHere returns a client's id for a message as it can be here.
func idHere(threadID, id string) string {
	if id == "" || input.ValidID(id, thread.MaxIDBytes) {
		return id
	}
	return persistence.OnceID(threadID, id)
}

// postChat answers useChat, always with a stream. When the client goes away, as by its stop or by a reload, the turn
// goes on by default: it can be resumed, and gives way to the next message if nobody has.
func (a *api) postChat(c echo.Context, key thread.Key, body *useChat, instructions []string) error {
	if len(body.Messages) == 0 {
		return problem.BadRequest("empty_content", "messages", "messages is empty.")
	}
	inStates, err := sdkAsksInStates(c)
	if err != nil {
		return err
	}
	last := &body.Messages[len(body.Messages)-1]
	req := chat.TurnRequest{Key: key, Instructions: instructions}
	mode := chat.Mode{
		Chat: true, Shown: idHere(key.Thread, last.ID), Regenerate: body.Trigger == triggerRegenerate,
		Of: idHere(key.Thread, body.MessageID),
	}
	switch decided := last.decisions(key.Owner); {
	case last.Role != string(thread.RoleAssistant):
		req.Text, req.Images, req.Parts = last.userInput()
	case mode.Regenerate:
	case len(decided) == 0:
		return problem.Invalid("messages", "The last message must be from the user, or hold answers to approvals.")
	default:
		return a.decide(c, key, last, decided)
	}
	body.Messages = nil // they may be large
	return a.stream(c, key, -1, a.say(c, req, mode), streamForm{inStates: inStates, stops: a.StopWithReader})
}

// decide takes the decisions on approvals in the client's last message, an answer, and resumes its stream, which ended
// at the questions.
func (a *api) decide(c echo.Context, key thread.Key, last *uiMessage, decided []chat.Decision) error {
	ctx := c.Request().Context()
	notAsked := &chat.CallError{CallID: decided[len(decided)-1].ToolCallID, Err: chat.ErrNotAsked}
	t, err := a.Chat.Find(ctx, key, last.ID) // first, because a decision may end it
	if errors.Is(err, chat.ErrIdle) {
		return notAsked
	}
	if err != nil {
		return orThread(err)
	}
	answered := map[string]bool{}
	for _, d := range decided {
		err := a.Chat.Decide(ctx, key, d)
		switch {
		case err == nil, errors.Is(err, chat.ErrNotAsked) && a.decided(ctx, key, last.ID, d):
			answered[d.ToolCallID] = true
		case !errors.Is(err, chat.ErrNotAsked):
			return orThread(err)
		}
	}
	if len(answered) == 0 {
		return notAsked
	}
	return a.stream(c, key, -1, func() (chat.Answer, error) { return chat.Answer{Reply: t}, nil },
		streamForm{inStates: true, answered: answered, open: last.open(), stops: a.StopWithReader})
}

// decided reports whether the saved message has a decision already: it is sent again, or the user has decided
// elsewhere, too.
func (a *api) decided(ctx context.Context, key thread.Key, messageID string, d chat.Decision) bool {
	m, err := a.Store.Message(ctx, key, messageID)
	return err == nil && slices.ContainsFunc(m.Parts, func(p thread.Part) bool {
		saved, ok := toolkit.DecisionOf(p.Raw)
		return ok && p.ToolCallID == d.ToolCallID && saved == toolkit.Decision{ID: d.Nonce, Approved: d.Approved}
	})
}

// userInput returns the text and the images of a message, and its parts of other types, such as the client's data.
func (m *uiMessage) userInput() (text string, images []chat.Image, others []thread.Part) {
	var texts []string
	for _, p := range m.Parts {
		switch p.Type {
		case "text":
			texts = append(texts, p.Text)
		case "file":
			images = append(images, chat.Image{MediaType: p.MediaType, URL: relative(p.URL)})
		default:
			if p.other.Type != "" && !p.other.IsTool() {
				others = append(others, p.other)
			}
		}
	}
	return strings.Join(texts, "\n"), images, others
}

// decisions returns the user's decisions on approvals in an assistant message.
func (m *uiMessage) decisions(by string) []chat.Decision {
	var all []chat.Decision
	for _, p := range m.Parts {
		if p.State == "approval-responded" && p.Approval.Approved != nil {
			all = append(all, chat.Decision{
				ToolCallID: p.ToolCallID, Nonce: p.Approval.ID, Approved: *p.Approval.Approved, By: by,
			})
		}
	}
	return all
}

// open says of the calls in an assistant message whether they have no result there.
func (m *uiMessage) open() map[string]bool {
	calls := map[string]bool{}
	for _, p := range m.Parts {
		if p.ToolCallID != "" {
			calls[p.ToolCallID] = !strings.HasPrefix(p.State, "output-")
		}
	}
	return calls
}

// readUseChat reads the body of useChat from a request's; ok is false for other bodies.
func readUseChat(messages json.RawMessage, trigger, messageID string) (body *useChat, ok bool, err error) {
	if len(messages) == 0 || string(messages) == "null" {
		return nil, false, nil
	}
	body = &useChat{Trigger: trigger, MessageID: messageID}
	err = input.Value(messages, &body.Messages)
	if e, ok := errors.AsType[*problem.Error](err); ok && e.Status == http.StatusRequestEntityTooLarge {
		return nil, true, e
	}
	if err != nil {
		return nil, true, errNoMessages
	}
	return body, true, nil
}

// Limits on a useChat request, in bytes. Its body contains the whole conversation with its images, of
// which only the last message is kept.
const (
	maxChatBody    = 128 << 20
	maxChatMessage = 16 << 20 // of the last message
	maxKept        = maxChatMessage + input.MaxBody
)

// readChatBody reads a body with a user's text, or one of useChat with the last of its messages only.
func readChatBody(c echo.Context, dst any) error {
	body, err := chatBody(c)
	if err != nil {
		return err
	}
	return input.Object(body, dst)
}

func chatBody(c echo.Context) ([]byte, error) {
	if t, _ := input.MediaType(c.Request().Header.Get(echo.HeaderContentType)); t != echo.MIMEApplicationJSON {
		return nil, problem.UnsupportedMedia("Send the body as application/json.")
	}
	// It is known by now whose conversation it is.
	input.Arrives(c, bodyTimeout+timeToArrive(maxChatBody))
	if err := input.Hold(c, maxKept); err != nil {
		return nil, err
	}
	body, err := shortened(c.Request().Body, maxChatMessage)
	answerSoon(c) // the body may have taken longer than an answer may
	if err == nil {
		input.BodyComplete(c)
	}
	return body, err
}

// shortened reads the JSON object of a useChat request, and returns it with only the last of its
// messages. Those before it take no memory, however large they are: a client goes on sending a message
// that was refused. Only what is returned has to be checked. The last message may have limit bytes.
func shortened(body io.Reader, limit int) ([]byte, error) {
	s, buf := shortener{limit: limit}, make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		s.write(buf[:n])
		switch {
		case err == nil:
		case !errors.Is(err, io.EOF):
			return nil, input.BodyError(err)
		case s.large:
			return nil, problem.TooLarge("messages", fmt.Sprintf("The last message is larger than %d bytes.", limit))
		default:
			return s.out, nil
		}
	}
}

// shortener copies a JSON object, with the last element only of its list messages.
type shortener struct {
	out     []byte
	limit   int  // of the last element, in bytes
	large   bool // what is to be kept has become too large: nothing of it is
	depth   int  // of objects and lists
	text    bool // within a string, escaped: before an escaped byte of it
	escaped bool
	name    int  // where the last string of the outer object begins in out
	named   bool // that is the name messages, and its value follows
	element int  // where the current element of the list begins in out; 0 outside of the list
}

// write shortens the next bytes.
func (s *shortener) write(p []byte) {
	for len(p) > 0 {
		n := 1
		if s.text {
			n = s.within(p)
			s.keep(p[:n])
		} else {
			s.outside(p[0])
		}
		p = p[n:]
	}
}

// within returns how many of the next bytes, the first of which is within a string, end at a quote that may
// end it. Strings are nearly all of a conversation with images.
func (s *shortener) within(p []byte) int {
	i := bytes.IndexByte(p, '"')
	before := p
	if i >= 0 {
		before = p[:i]
	}
	slashes := len(before) - len(bytes.TrimRight(before, `\`))
	escaped := slashes%2 == 1
	if slashes == len(before) { // the first byte may be escaped
		escaped = escaped != s.escaped
	}
	if i < 0 {
		s.escaped = escaped
		return len(p)
	}
	s.text, s.escaped = escaped, false
	return i + 1
}

// outside takes the next byte outside of a string.
func (s *shortener) outside(b byte) {
	switch b {
	case '"':
		s.text = true
		if s.depth == 1 {
			s.name = len(s.out)
		}
	case ':':
		if s.depth == 1 {
			s.named = string(bytes.TrimSpace(s.out[s.name:])) == `"messages"`
		}
	case '{', '[':
		s.depth++
	case '}', ']':
		if s.depth--; s.depth == 1 {
			s.element = 0
		}
	case ',':
		switch {
		case s.depth == 1:
			s.named = false
		case s.depth == 2 && s.element > 0: // another element
			s.out, s.large = s.out[:s.element], false
			return
		}
	}
	s.keep([]byte{b})
	if b == '[' && s.depth == 2 && s.named {
		s.element = len(s.out)
	}
}

// keep copies bytes.
func (s *shortener) keep(p []byte) {
	message := s.element > 0 && len(s.out)-s.element+len(p) > s.limit
	if s.large = s.large || message || len(s.out)+len(p) > s.limit+input.MaxBody; !s.large {
		s.out = append(s.out, p...)
	}
}
