package session

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"voicebridge/realtime"
	"voicebridge/thread"
)

// timed orders items by the time in their events, as a driver would whose upstream does
// not chain its items.
type timed map[string]int

func (o timed) place(t *testing.T, data string) *ItemPlace {
	t.Helper()
	ev, invalid := realtime.Decode([]byte(data))
	item, err := realtime.DecodeItem(ev.Item)
	var at struct {
		At *int `json:"at_ms"`
	}
	if err != nil || invalid != nil || json.Unmarshal(ev.Raw, &at) != nil || at.At == nil {
		t.Fatal(data, err, invalid)
	}
	latest, before := -1, ""
	for id, ms := range o {
		if id != item.ID && ms < *at.At && ms > latest {
			before, latest = id, ms
		}
	}
	o[item.ID] = *at.At
	return &ItemPlace{Before: before, Known: true}
}

// TestOrderOfTheDriver has items arrive late and without a chain: the thread has them in
// the driver's order.
func TestOrderOfTheDriver(t *testing.T) {
	t.Parallel()
	c := &scripted{t: t, now: epoch, s: newTestState(t, Config{})}
	order := timed{}
	c.play(`up {"type":"session.created","session":{"type":"realtime"}}`)
	c.play(`up {"type":"session.updated","session":{"type":"realtime"}}`)
	for _, line := range []string{
		`"at_ms":100,"item":{"id":"i1"`, `"at_ms":500,"item":{"id":"i5"`, `"at_ms":300,"item":{"id":"i3"`,
		`"at_ms":400,"item":{"id":"i4"`, `"at_ms":50,"item":{"id":"i0"`, `"at_ms":600,"previous_item_id":"i0","item":{"id":"i6"`,
	} {
		id := line[strings.Index(line, `"id":"`)+6 : len(line)-1]
		data := `{"type":"conversation.item.added",` + line + `,"type":"message","role":"user","content":[{"type":"input_text","text":"` + id + `"}]}}`
		c.reduce(UpstreamEvent{Gen: 1, Data: []byte(data), Place: order.place(t, data)})
	}
	var got []string
	for _, e := range c.s.transcript.memory.entries {
		got = append(got, e.mine.text())
	}
	if !slices.Equal(got, []string{"i0", "i1", "i3", "i4", "i5", "i6"}) {
		t.Errorf("order: %v\n%s", got, c.out.String())
	}
}

// TestEndThatAModelDoesNotGet has a thread whose last message, an answer that was interrupted before its first word, is
// not among those for a model. What is said comes after it, also what is announced in disorder, and so does the next call.
func TestEndThatAModelDoesNotGet(t *testing.T) {
	t.Parallel()
	s := newTestState(t, Config{History: []thread.Message{{ID: "said", Role: thread.RoleUser}}, LastMessage: "empty"})
	if history, last := s.EndOfThread(); len(history) != 1 || last != "empty" {
		t.Errorf("the end of the thread is %v, %q", history, last)
	}
	c := &scripted{t: t, now: epoch, s: s}
	c.play(`up {"type":"session.created","session":{"type":"realtime"}}`)
	c.play(`up {"type":"session.updated","session":{"type":"realtime"}}`)
	c.play(`up {"type":"input_audio_buffer.committed","item_id":"i2","previous_item_id":"i1"}`)
	c.play(`up {"type":"input_audio_buffer.committed","item_id":"i1","previous_item_id":"i0"}`)
	if want := `save message id-2 user voice in_progress after "empty"`; !strings.Contains(c.out.String(), want) {
		t.Errorf("no %s in\n%s", want, &c.out)
	}
	if _, last := s.EndOfThread(); last != "id-1" {
		t.Errorf("the last message is %q", last)
	}
}
