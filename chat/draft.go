package chat

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/spool"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

const (
	// thinkEvery is how often growing reasoning is saved.
	thinkEvery = time.Second
	// maxAnswer limits the text of a turn, in bytes, maxReasoning the model's reasoning, and
	// maxOutputs the inputs and outputs of its tools: together they fit into a message.
	maxAnswer    = 1 << 20
	maxReasoning = 256 << 10
	maxOutputs   = 2 << 20
)

// publisher sends events to the watchers of a thread.
type publisher func(kind persistence.EventType, data any)

// draft is the growing assistant message. It reports every change to those who follow the turn, and
// the text so far to the thread's watchers, and has it saved. It belongs to the turn's goroutine.
type draft struct {
	msg     thread.Message
	turn    string // the id of the turn
	events  *eventLog
	publish publisher
	saver   *saver

	text      strings.Builder // of the growing part
	blockID   string          // of that part; empty if none is growing
	reasoning bool            // that part is reasoning
	blocks    map[bool]int    // parts so far, by reasoning
	size      int             // bytes of text
	thought   int             // bytes of reasoning
	outputs   int             // bytes of tool inputs and outputs
	inStep    bool
	failing   bool // the text being added says why the turn failed

	thoughtAt time.Time // when growing reasoning was last saved
	// published is how much of the text was sent, in bytes.
	published int
}

// newDraft begins an answer.
func newDraft(meta thread.Metadata, turn string, events *eventLog, publish publisher, saver *saver) *draft {
	meta.Source, meta.Status = thread.SourceText, thread.StatusInProgress
	return &draft{turn: turn, events: events, publish: publish, saver: saver, blocks: map[bool]int{},
		msg: thread.Message{
			ID: persistence.NewID(), Role: thread.RoleAssistant, Parts: []thread.Part{thread.StepStart()},
			Metadata: meta,
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

// unsay makes reasoning of the step's text, which has been shown as text already.
func (d *draft) unsay() {
	d.endBlock()
	for i := len(d.msg.Parts) - 1; d.msg.Parts[i].Type != "step-start"; i-- {
		if p := &d.msg.Parts[i]; p.Type == thread.PartText {
			d.size -= len(p.Text)
			kept := toolkit.Head(p.Text, max(0, maxReasoning-d.thought))
			d.thought += len(p.Text)
			*p = reasoningPart(kept)
		}
	}
	d.published = len(d.msg.Text())
	d.save()
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
		d.emit(Event{Type: start, TextID: d.blockID})
	}
	before := d.text.Len()
	d.text.WriteString(text)
	if reasoning {
		d.emit(Event{Type: EventReasoningDelta, TextID: d.blockID, Delta: text})
		if now := time.Now(); now.Sub(d.thoughtAt) >= thinkEvery {
			d.thoughtAt = now
			d.save()
		}
		return
	}
	d.msg.Parts[len(d.msg.Parts)-1].Text = d.text.String()
	d.emit(Event{Type: EventTextDelta, TextID: d.blockID, Delta: text})
	if before == 0 { // nothing saved has the part
		d.save()
	} else {
		d.saver.put(persistence.PutDraft{
			Draft: persistence.Draft{MessageID: d.msg.ID, Start: before, Text: text}, Turn: d.turn,
		})
	}
	d.publishText()
}

// save saves the whole message soon, unless it is too large now.
func (d *draft) save() {
	if m := d.snapshot(); persistence.CheckMessage(m) == nil {
		d.saver.put(persistence.PutMessage{Message: m, Turn: d.turn, Grows: true})
	}
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
}

// add appends a part and returns its index.
func (d *draft) add(part thread.Part) int {
	d.endBlock()
	d.msg.Parts = append(d.msg.Parts, part)
	d.save()
	return len(d.msg.Parts) - 1
}

// set replaces a part.
func (d *draft) set(i int, part thread.Part) {
	d.msg.Parts[i] = part
	d.save()
}

// step returns the parts from the beginning of the step that a part belongs to until the end of the
// message, and the index of the first.
func (d *draft) step(of int) (parts []thread.Part, first int) {
	for first = of; first > 0 && d.msg.Parts[first].Type != "step-start"; {
		first--
	}
	return slices.Clone(d.msg.Parts[first:]), first
}

// publishText sends what was added to the last part. Followers in other processes need to know
// which part that is.
func (d *draft) publishText() {
	if text, start := d.msg.Text(), d.published; len(text) > start {
		d.published = len(text)
		d.publish(persistence.EventMessageDelta, persistence.Delta{ID: d.msg.ID, Start: &start, Text: text[start:]})
	}
}

// snapshot returns the current message, to be saved while the draft changes.
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

// saver has a turn's changes saved, in their order and in the background: a slow database delays neither the model's
// text nor a tool. It belongs to the turn's goroutine.
type saver struct {
	stop   context.CancelCauseFunc
	writer *spool.Writer
	key    thread.Key
}

// put saves changes soon.
func (s *saver) put(changes ...persistence.Change) {
	if !s.writer.Push(s.key, changes...) {
		s.stop(errNoRoom)
	}
}

// flush waits until everything is safe, in the database or in the writer's file: a tool does not run before its call is
// on record.
func (s *saver) flush(ctx context.Context) error {
	return s.writer.Await(ctx, s.key)
}
