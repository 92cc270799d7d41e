package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"voicebridge/chat"
	"voicebridge/thread"
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

var errNoMessages = problem.BadRequest("invalid_value", "messages", "messages must be a list of the AI SDK's UIMessages.")

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
			all = append(all, chat.Decision{ToolCallID: p.ToolCallID, Nonce: p.Approval.ID, Approved: *p.Approval.Approved, By: by})
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
