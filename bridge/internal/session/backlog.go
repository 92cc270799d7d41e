package session

import (
	"encoding/json"
	"strings"

	"voicebridge/realtime"
	"voicebridge/thread"
)

// backlog is what waits for a ready session: events of the browser, and texts from elsewhere.
type backlog struct {
	events []BrowserEvent
	bytes  int
	texts  []ServerText
	// written are messages of the thread that the first session should get.
	written []thread.Message
}

// full reports whether there is no room for an event.
func (b *backlog) full(e BrowserEvent) bool {
	return len(b.events) >= maxBacklogEvents || b.bytes+len(e.Data) > maxBacklogBytes
}

// add keeps an event, if there is room for it.
func (b *backlog) add(e BrowserEvent) bool {
	if b.full(e) {
		return false
	}
	b.events = append(b.events, e)
	b.bytes += len(e.Data)
	return true
}

// take removes and returns what is waiting.
func (b *backlog) take() (events []BrowserEvent, texts []ServerText) {
	events, texts = b.events, b.texts
	*b = backlog{}
	return events, texts
}

// clientItem holds the fields that are read from an item that a browser wants to create.
type clientItem struct {
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	CallID  string          `json:"call_id"`
	Output  json.RawMessage `json:"output"`
	Content []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	} `json:"content"`
}

// text joins the item's texts, beside which there may be images; bad is the index of a part that is
// neither, or negative.
func (it *clientItem) text() (text string, bad int) {
	var texts []string
	for i, c := range it.Content {
		switch {
		case c.Type == realtime.ContentInputImage:
		case c.Type == realtime.ContentInputText && c.Text != nil:
			texts = append(texts, *c.Text)
		default:
			return "", i
		}
	}
	return strings.Join(texts, "\n"), -1
}
