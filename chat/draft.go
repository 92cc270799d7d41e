package chat

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

const (
	// publishEvery is how often the text so far is sent to the thread's watchers.
	publishEvery = 120 * time.Millisecond
	// saveEvery is how often it is saved.
	saveEvery = time.Second
	// maxAnswer limits the text of a turn, in bytes, maxReasoning the model's reasoning, and
	// maxOutputs the inputs and outputs of its tools: together they fit into a message.
	maxAnswer    = 1 << 20
	maxReasoning = 256 << 10
	maxOutputs   = 2 << 20
)

// publisher sends events to the watchers of a thread.
type publisher func(kind persistence.EventType, data any)

// draft is the growing assistant message. It reports every change to those who follow the turn, and
// the text so far to the thread's watchers. It belongs to the turn's goroutine.
type draft struct {
	msg     thread.Message
	events  *eventLog
	publish publisher

	text      strings.Builder // of the growing part
	blockID   string          // of that part; empty if none is growing
	reasoning bool            // that part is reasoning
	blocks    map[bool]int    // parts so far, by reasoning
	size      int             // bytes of text
	thought   int             // bytes of reasoning
	outputs   int             // bytes of tool inputs and outputs
	inStep    bool
	failing   bool // the text being added says why the turn failed

	saveAt      time.Time // zero: nothing to save
	publishAt   time.Time // zero: nothing to send
	publishedAt time.Time
	// publishedBytes is how much of the text was sent.
	publishedBytes int
	// shape counts all changes except additions to the last part.
	shape int
	saved savedDraft
}

// savedDraft is what was saved of a draft; it can be extended as long as only the last part grows.
type savedDraft struct {
	shape, bytes int  // draft.shape, and the length of the last part's text
	growing      bool // the last part is text that may grow
}

// mark returns the state that is saved with the current draft.
func (d *draft) mark() savedDraft {
	m := savedDraft{shape: d.shape, growing: d.blockID != "" && !d.reasoning}
	if m.growing {
		m.bytes = len(d.msg.Parts[len(d.msg.Parts)-1].Text)
	}
	return m
}

// added returns what was added to the last part since it was saved, if nothing else has changed;
// nil if the whole message must be saved.
func (d *draft) added() *persistence.Draft {
	now := d.mark()
	if !now.growing || !d.saved.growing || d.saved.shape != now.shape || d.saved.bytes == 0 {
		return nil
	}
	text := d.msg.Parts[len(d.msg.Parts)-1].Text
	return &persistence.Draft{MessageID: d.msg.ID, Start: d.saved.bytes, Text: text[d.saved.bytes:]}
}

// newDraft begins an answer.
func newDraft(meta thread.Metadata, events *eventLog, publish publisher) *draft {
	meta.Source, meta.Status = thread.SourceText, thread.StatusInProgress
	return &draft{events: events, publish: publish, blocks: map[bool]int{}, msg: thread.Message{
		ID: persistence.NewID(), Role: thread.RoleAssistant, Parts: []thread.Part{thread.StepStart()}, Metadata: meta,
	}}
}

// emit sends an event to those who follow the turn.
func (d *draft) emit(e Event) {
	e.MessageID = d.msg.ID
	e.Notice = d.failing && e.TextID != ""
	d.events.add(e)
}

// startStep begins a step of the model. The message begins with one.
func (d *draft) startStep(first bool) {
	if !first {
		d.msg.Parts = append(d.msg.Parts, thread.StepStart())
		d.shape++
	}
	d.inStep = true
	d.emit(Event{Type: EventStepStart})
}

// finishStep announces that the current step, if any, is over.
func (d *draft) finishStep() {
	if d.inStep {
		d.inStep = false
		d.emit(Event{Type: EventStepFinish})
	}
}

// say adds text. It returns false if there is no more room.
func (d *draft) say(text string) bool {
	// Remove what cannot be stored, so that text has the same length here and there.
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	if d.size+len(text) > maxAnswer {
		return false
	}
	d.size += len(text)
	d.grow(false, text)
	return true
}

// think adds the model's reasoning, as far as there is room.
func (d *draft) think(text string) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if d.thought += len(text); d.thought <= maxReasoning {
		d.grow(true, text)
	}
}

// grow adds text to the last part, or begins one.
func (d *draft) grow(reasoning bool, text string) {
	if d.blockID != "" && d.reasoning != reasoning {
		d.endBlock()
	}
	if d.blockID == "" {
		d.blocks[reasoning]++
		d.reasoning, d.blockID = reasoning, fmt.Sprintf("text-%d", d.blocks[reasoning])
		start, part := EventTextStart, thread.TextPart("")
		if reasoning {
			d.blockID = fmt.Sprintf("reasoning-%d", d.blocks[reasoning])
			start, part = EventReasoningStart, reasoningPart("")
		}
		d.text.Reset()
		d.msg.Parts = append(d.msg.Parts, part)
		d.shape++
		d.emit(Event{Type: start, TextID: d.blockID})
	}
	d.text.WriteString(text)
	delta := EventTextDelta
	if reasoning {
		delta = EventReasoningDelta
	} else {
		d.msg.Parts[len(d.msg.Parts)-1].Text = d.text.String()
	}
	d.emit(Event{Type: delta, TextID: d.blockID, Delta: text})
	d.changed()
}

// reasoningPart returns a part with reasoning, in the form of the AI SDK.
func reasoningPart(text string) thread.Part {
	return thread.Part{Type: "reasoning", Raw: toolkit.Encode(map[string]string{"type": "reasoning", "text": text})}
}

// endBlock ends the growing part.
func (d *draft) endBlock() {
	if d.blockID == "" {
		return
	}
	end := EventTextEnd
	if d.reasoning {
		end = EventReasoningEnd
		d.msg.Parts[len(d.msg.Parts)-1] = reasoningPart(d.text.String())
	} else {
		d.publishText()
	}
	d.emit(Event{Type: end, TextID: d.blockID})
	d.blockID = ""
}

// notice adds text of our own. If it is the message's only text, the metadata says that it is not the model's.
func (d *draft) notice(text string) {
	if d.size == 0 {
		d.note(extraNotice, true)
	}
	d.endBlock()
	d.say(text)
	d.endBlock()
}

// note puts a value into the message's metadata.
func (d *draft) note(key string, value any) {
	d.msg.Metadata.Extra[key] = toolkit.Encode(value)
	d.shape++
}

// add appends a part and returns its index.
func (d *draft) add(part thread.Part) int {
	d.endBlock()
	d.msg.Parts = append(d.msg.Parts, part)
	d.shape++
	d.changed()
	return len(d.msg.Parts) - 1
}

// set replaces a part.
func (d *draft) set(i int, part thread.Part) {
	d.msg.Parts[i] = part
	d.shape++
	d.changed()
}

// step returns the parts from the beginning of the step that a part belongs to until the end of the
// message, and the index of the first.
func (d *draft) step(of int) (parts []thread.Part, first int) {
	for first = of; first > 0 && d.msg.Parts[first].Type != "step-start"; {
		first--
	}
	return slices.Clone(d.msg.Parts[first:]), first
}

// changed records that there is something to send and save.
func (d *draft) changed() {
	if d.saveAt.IsZero() {
		d.saveAt = time.Now().Add(saveEvery)
	}
	if d.publishAt.IsZero() {
		d.publishAt = d.publishedAt.Add(publishEvery)
	}
}

// publishDue sends the added text to the watchers if it is time to.
func (d *draft) publishDue(now time.Time) {
	if !d.publishAt.IsZero() && !now.Before(d.publishAt) {
		d.publishAt, d.publishedAt = time.Time{}, now
		d.publishText()
	}
}

// publishText sends what was added to the last part. Followers in other processes need to know
// which part that is.
func (d *draft) publishText() {
	if text, start := d.msg.Text(), d.publishedBytes; len(text) > start {
		d.publishedBytes = len(text)
		d.publish(persistence.EventMessageDelta, persistence.Delta{ID: d.msg.ID, Start: &start, Text: text[start:]})
	}
}

// snapshot returns the current message, for another goroutine to save.
func (d *draft) snapshot() thread.Message {
	m := d.msg
	m.Parts = slices.Clone(m.Parts)
	if d.blockID != "" && d.reasoning {
		m.Parts[len(m.Parts)-1] = reasoningPart(d.text.String())
	}
	m.Metadata.Extra = maps.Clone(m.Metadata.Extra)
	m.Metadata.LatencyMS = maps.Clone(m.Metadata.LatencyMS)
	return m
}

// shrink shortens a message that the store has refused.
func (d *draft) shrink() {
	const enough = 100_000 // characters of all texts
	left := enough
	for i := range d.msg.Parts {
		switch p := &d.msg.Parts[i]; p.Type {
		case "text":
			p.Text = cutRunes(p.Text, max(left, 0))
			left -= len(p.Text)
		case "reasoning":
			*p = reasoningPart("")
		}
	}
}
