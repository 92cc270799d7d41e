package realtime

import (
	"encoding/json"
	"fmt"
	"strings"
)

// The types of an Item that are made or read here.
const (
	ItemMessage            = "message"
	ItemFunctionCall       = "function_call"
	ItemFunctionCallOutput = "function_call_output"
)

// The types of a Content.
const (
	ContentInputText   = "input_text"
	ContentInputAudio  = "input_audio"
	ContentInputImage  = "input_image"
	ContentOutputText  = "output_text"
	ContentOutputAudio = "output_audio"
)

// Item is one entry of the upstream's conversation. Type decides which fields are used. Ids and call ids have at most
// 32 characters.
type Item struct {
	ID      string    `json:"id,omitempty"`
	Object  string    `json:"object,omitempty"`
	Type    string    `json:"type"`
	Status  string    `json:"status,omitempty"` // in_progress, completed, incomplete
	Role    string    `json:"role,omitempty"`   // message: system, user, assistant
	Content []Content `json:"content,omitempty"`

	CallID    string `json:"call_id,omitempty"` // function_call, function_call_output
	Name      string `json:"name,omitempty"`    // function_call
	Arguments string `json:"-"`                 // function_call: JSON text as the model wrote it
	Output    string `json:"-"`                 // function_call_output
}

// Content is one part of a message item.
type Content struct {
	Type       string `json:"type"`
	Text       string `json:"-"`                    // input_text, output_text
	Transcript string `json:"transcript,omitempty"` // input_audio, output_audio
	Audio      string `json:"audio,omitempty"`      // base64, only in retrieved items and client-made input_audio
	ImageURL   string `json:"image_url,omitempty"`  // input_image: a data: URL
}

// plainItem and plainContent are the types without their methods.
type (
	plainItem    Item
	plainContent Content
)

// MarshalJSON writes the form that conversation.item.create takes. Arguments and output are required for their types
// and so are written even when empty.
func (i Item) MarshalJSON() ([]byte, error) {
	w := struct {
		plainItem
		Arguments *string `json:"arguments,omitempty"`
		Output    *string `json:"output,omitempty"`
	}{plainItem: plainItem(i)}
	if i.Type == ItemFunctionCall || i.Arguments != "" {
		w.Arguments = &i.Arguments
	}
	if i.Type == ItemFunctionCallOutput || i.Output != "" {
		w.Output = &i.Output
	}
	return marshal(w)
}

// UnmarshalJSON reads an item. A field of the wrong JSON type becomes its text, so that one odd field does not lose the
// item.
func (i *Item) UnmarshalJSON(b []byte) error {
	*i = Item{}
	return members(b, func(key string, val []byte) error {
		switch key {
		case "id":
			i.ID = looseText(val)
		case "object":
			i.Object = looseText(val)
		case "type":
			i.Type = looseText(val)
		case "status":
			i.Status = looseText(val)
		case "role":
			i.Role = looseText(val)
		case "content":
			return i.setContent(val)
		case "call_id":
			i.CallID = looseText(val)
		case "name":
			i.Name = looseText(val)
		case "arguments":
			i.Arguments = looseText(val)
		case "output":
			i.Output = looseText(val)
		}
		return nil
	})
}

func (i *Item) setContent(val []byte) error {
	i.Content = nil
	if isNull(val) {
		return nil
	}
	i.Content = []Content{}
	err := elements(val, func(val []byte) error {
		var c Content
		err := c.UnmarshalJSON(val)
		i.Content = append(i.Content, c)
		return err
	})
	if err != nil {
		return fmt.Errorf("content: %w", err)
	}
	return nil
}

// MarshalJSON writes text for text parts even when it is empty.
func (c Content) MarshalJSON() ([]byte, error) {
	w := struct {
		plainContent
		Text *string `json:"text,omitempty"`
	}{plainContent: plainContent(c)}
	if c.Type == ContentInputText || c.Type == ContentOutputText || c.Text != "" {
		w.Text = &c.Text
	}
	return marshal(w)
}

// UnmarshalJSON reads a part; null fields are empty.
func (c *Content) UnmarshalJSON(b []byte) error {
	*c = Content{}
	return members(b, func(key string, val []byte) error {
		switch key {
		case "type":
			c.Type = looseText(val)
		case "text":
			c.Text = looseText(val)
		case "transcript":
			c.Transcript = looseText(val)
		case "audio":
			c.Audio = looseText(val)
		case "image_url":
			c.ImageURL = looseText(val)
		}
		return nil
	})
}

// DecodeItem reads the "item" of an event.
func DecodeItem(raw json.RawMessage) (Item, error) {
	var i Item
	if err := i.UnmarshalJSON(raw); err != nil {
		return Item{}, fmt.Errorf("decode item: %w", err)
	}
	return i, nil
}

// Text returns what the item says: the texts and transcripts of its content, one per line. It is empty for function
// calls and for audio that has no transcript yet.
func (i Item) Text() string {
	var parts []string
	for _, c := range i.Content {
		if t := c.Text + c.Transcript; t != "" {
			parts = append(parts, t)
		}
	}
	return strings.Join(parts, "\n")
}
