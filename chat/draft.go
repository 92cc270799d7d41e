package chat

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/toolkit"
)

const (
	// tellEvery is how often the text so far is told to the thread's watchers.
	tellEvery = 120 * time.Millisecond
	// saveEvery is how often it is saved.
	saveEvery = time.Second
	// maxAnswer bounds the text of a turn, in bytes, maxReasoning what the model
	// thinks, and maxOutputs the inputs and outputs of its tools: a message has room
	// for all.
	maxAnswer    = 1 << 20
	maxReasoning = 256 << 10
	maxOutputs   = 2 << 20
)

// publisher tells the watchers of a thread.
type publisher func(kind persistence.EventType, data any)

// draft is the assistant's message while it grows. It tells those who follow the
// turn of every change, and the thread's watchers of the text so far. It belongs
// to the turn's goroutine.
type draft struct {
	msg     persistence.Message
	events  *eventLog
	publish publisher

	text      strings.Builder // of the part that grows
	blockID   string          // of that part; empty while none grows
	reasoning bool            // that part is what the model thinks
	blocks    map[bool]int    // parts so far, by reasoning
	size      int             // bytes of text
	thought   int             // bytes of reasoning
	outputs   int             // bytes of tool inputs and outputs
	inStep    bool
	failing   bool // what is said now says why the turn failed

	saveAt time.Time // zero: nothing to save
	tellAt time.Time // zero: nothing to tell
	told   time.Time
	// toldBytes is how much of the text was told.
	toldBytes int
	// shape counts the changes other than words that were added to the last part.
	shape int
	saved savedDraft
}

// savedDraft says what of a draft is saved: the last part, as long as nothing else has
// changed.
type savedDraft struct {
	shape, bytes int
	any          bool
}

// mark is what is saved with the draft as it is now.
func (d *draft) mark() savedDraft {
	m := savedDraft{shape: d.shape, any: d.blockID != "" && !d.reasoning}
	if m.any {
		m.bytes = len(d.msg.Parts[len(d.msg.Parts)-1].Text)
	}
	return m
}

// added is what was added to the last part, and nothing else, since it was saved; nil
// where the whole message has to be.
func (d *draft) added() *persistence.Draft {
	now := d.mark()
	if !now.any || !d.saved.any || d.saved.shape != now.shape || d.saved.bytes == 0 {
		return nil
	}
	text := d.msg.Parts[len(d.msg.Parts)-1].Text
	return &persistence.Draft{MessageID: d.msg.ID, Start: d.saved.bytes, Text: text[d.saved.bytes:]}
}

// newDraft begins an answer.
func newDraft(meta persistence.Metadata, events *eventLog, publish publisher) *draft {
	meta.Source, meta.Status = persistence.SourceText, persistence.StatusInProgress
	return &draft{events: events, publish: publish, blocks: map[bool]int{}, msg: persistence.Message{
		ID: persistence.NewID(), Role: persistence.RoleAssistant, Parts: []persistence.Part{persistence.StepStart()}, Metadata: meta,
	}}
}

// emit tells those who follow the turn.
func (d *draft) emit(e Event) {
	e.MessageID = d.msg.ID
	e.Notice = d.failing && e.TextID != ""
	d.events.add(e)
}

// startStep begins a step of the model. The message begins with one.
func (d *draft) startStep(first bool) {
	if !first {
		d.msg.Parts = append(d.msg.Parts, persistence.StepStart())
		d.shape++
	}
	d.inStep = true
	d.emit(Event{Type: EventStepStart})
}

// finishStep tells that a step is over, if one is not.
func (d *draft) finishStep() {
	if d.inStep {
		d.inStep = false
		d.emit(Event{Type: EventStepFinish})
	}
}

// say adds words. It reports false when there is no more room.
func (d *draft) say(text string) bool {
	// What cannot be saved is left out, so that the text here is as long as there.
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	if d.size+len(text) > maxAnswer {
		return false
	}
	d.size += len(text)
	d.grow(false, text)
	return true
}

// think adds what the model thinks, as far as there is room.
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
		start, part := EventTextStart, persistence.TextPart("")
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

// reasoningPart is a part with what the model thinks, as the AI SDK has it.
func reasoningPart(text string) persistence.Part {
	return persistence.Part{Type: "reasoning", Raw: toolkit.Encode(map[string]string{"type": "reasoning", "text": text})}
}

// endBlock ends the part that grows.
func (d *draft) endBlock() {
	if d.blockID == "" {
		return
	}
	end := EventTextEnd
	if d.reasoning {
		end = EventReasoningEnd
		d.msg.Parts[len(d.msg.Parts)-1] = reasoningPart(d.text.String())
	}
	d.emit(Event{Type: end, TextID: d.blockID})
	d.blockID = ""
}

// notice says something in our own words.
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
func (d *draft) add(part persistence.Part) int {
	d.endBlock()
	d.msg.Parts = append(d.msg.Parts, part)
	d.shape++
	d.changed()
	return len(d.msg.Parts) - 1
}

// set replaces a part.
func (d *draft) set(i int, part persistence.Part) {
	d.msg.Parts[i] = part
	d.shape++
	d.changed()
}

// step returns the parts of the step that a part belongs to, from its beginning to the end
// of the message, and the index of the first.
func (d *draft) step(of int) (parts []persistence.Part, first int) {
	for first = of; first > 0 && d.msg.Parts[first].Type != "step-start"; {
		first--
	}
	return slices.Clone(d.msg.Parts[first:]), first
}

// changed notes that the message has something to be told and saved.
func (d *draft) changed() {
	if d.saveAt.IsZero() {
		d.saveAt = time.Now().Add(saveEvery)
	}
	if d.tellAt.IsZero() {
		d.tellAt = d.told.Add(tellEvery)
	}
}

// tell tells the watchers what is due: what was added to the text.
func (d *draft) tell(now time.Time) {
	if !d.tellAt.IsZero() && !now.Before(d.tellAt) {
		d.tellAt, d.told = time.Time{}, now
		if text, start := d.msg.Text(), d.toldBytes; len(text) > start {
			d.toldBytes = len(text)
			d.publish(persistence.EventMessageDelta, persistence.Delta{ID: d.msg.ID, Start: &start, Text: text[start:]})
		}
	}
}

// snapshot returns the message as it is now, for another goroutine to save.
func (d *draft) snapshot() persistence.Message {
	m := d.msg
	m.Parts = slices.Clone(m.Parts)
	if d.blockID != "" && d.reasoning {
		m.Parts[len(m.Parts)-1] = reasoningPart(d.text.String())
	}
	m.Metadata.Extra = maps.Clone(m.Metadata.Extra)
	m.Metadata.LatencyMS = maps.Clone(m.Metadata.LatencyMS)
	return m
}

// shrink makes a message that the store refuses as small as it must be.
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
