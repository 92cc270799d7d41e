package persistence

import (
	"context"
	"encoding/json"
	"time"

	"voicebridge/thread"
)

// rereadEvery is how often a watch that has missed text looks for it in the table.
const rereadEvery = 200 * time.Millisecond

// growth tracks the text of messages in progress that a watcher has got, so that it gets only what
// is added.
type growth struct {
	texts    map[string][]byte // by message
	rereadAt time.Time         // not before
}

// catchUp sends the messages in progress, with what was added since they were last saved whole, or what was added to
// those that the watcher has. Their events have no number, because nothing was saved.
func (v *view) catchUp(ctx context.Context) error {
	rows, err := v.s.eng.read().ListGrowing(ctx, v.key.Thread, v.key.Owner)
	if err != nil {
		return err
	}
	messages, err := wholes(ctx, v.s.eng.read(), v.key, rows)
	if err != nil {
		return err
	}
	for _, m := range messages {
		known, sent := v.grow.texts[m.ID]
		text := m.Text()
		switch {
		case m.Metadata.Status != thread.StatusInProgress || m.Revision > v.seen:
		case !sent:
			e := messageEvent(m)
			e.Seq = 0
			v.sendMessage(e, m)
		case len(text) > len(known) && text[:len(known)] == string(known):
			v.add(m.ID, text[len(known):])
		}
	}
	return nil
}

// sendMessage sends a saved message. One that is still in progress may hold less than the watcher
// has; the rest is sent again.
func (v *view) sendMessage(e Event, m thread.Message) {
	known := v.grow.texts[m.ID]
	v.send(e)
	if m.Metadata.Status != thread.StatusInProgress {
		delete(v.grow.texts, m.ID)
		return
	}
	text := m.Text()
	v.grow.texts[m.ID] = []byte(text)
	if len(known) > len(text) && string(known[:len(text)]) == text {
		v.add(m.ID, string(known[len(text):]))
	}
}

// add sends text that was added to a message.
func (v *view) add(id, text string) {
	if text == "" {
		return
	}
	data, err := thread.Encode(Delta{ID: id, Text: text})
	if err != nil { // only strings
		return
	}
	start := len(v.grow.texts[id])
	v.grow.texts[id] = append(v.grow.texts[id], text...)
	v.send(Event{Type: EventMessageDelta, Data: data, Delta: &Delta{ID: id, Start: &start, Text: text}})
}

// sendDelta sends text added to a message that the watcher knows. If text before it was missed, the
// table has it soon and is read.
func (v *view) sendDelta(ctx context.Context, e Event) {
	var d Delta
	if json.Unmarshal(e.Data, &d) != nil {
		return
	}
	if d.Start == nil {
		v.send(e) // it does not say where the text belongs
		return
	}
	if _, known := v.grow.texts[d.ID]; !known {
		return // it comes with the message
	}
	if now := time.Now(); *d.Start > len(v.grow.texts[d.ID]) && !now.Before(v.grow.rereadAt) {
		v.grow.rereadAt = now.Add(rereadEvery)
		_ = v.catchUp(ctx) // while the database is unavailable, the text waits
	}
	if known := len(v.grow.texts[d.ID]) - *d.Start; known >= 0 && known < len(d.Text) {
		v.add(d.ID, d.Text[known:])
	}
}
