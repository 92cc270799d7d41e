package wsserver

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// told is what a client was sent of the answers of a call, and what is kept from it: it knows one answer at a time, and
// takes the end of one for the end of its sound.
type told struct {
	to      *queue
	made    string        // the latest response of which the client was told
	answers []answer      // the latest ones with sound, oldest first
	playing string        // the response that is heard
	behind  [][]byte      // events of the next answer, until the client is told the end of the one before
	held    int           // bytes of the events that are held back
	last    realtime.Sent // what was sent last of the ends of answers
}

// remembered is how many answers are remembered.
const remembered = 64

// answer is a response that has sound.
type answer struct {
	response string
	parts    []part // at least one
	source   uint32 // of the packets that come early
	heard    bool   // it was heard to its end, or what was not heard never will be
	cut      bool   // it was not heard to its end
	ends     []end  // the events held back
}

// part is a part of an answer.
type part struct {
	item            string
	output, content int
	sent            bool // its sound, which comes early, has come
}

// end is an event that says that something with sound is complete: an item or, if that is empty, the response.
type end struct {
	item string
	data []byte
}

// sent returns how far the client was sent the answers.
func (t *told) sent() realtime.Sent {
	s := t.last
	for i := range t.answers {
		if a := &t.answers[i]; !a.heard && a.source == 0 {
			s.Pending = append(s.Pending, a.response)
		}
	}
	return s
}

// resume takes over what the client knows from another connection. What is not heard yet comes again.
func (t *told) resume(before *told) {
	t.made, t.answers = before.made, slices.Clone(before.answers)
	for i := range t.answers {
		a := &t.answers[i]
		a.ends, a.parts = nil, slices.Clone(a.parts) // the ends were for the other one
		for at := range a.parts {
			a.parts[at].sent = false
		}
	}
}

func (t *told) find(response string) *answer {
	i := slices.IndexFunc(t.answers, func(a answer) bool { return a.response == response })
	if i < 0 {
		return nil
	}
	return &t.answers[i]
}

// partOf returns the part of an answer that a packet is of, nil if it was not announced yet.
func (t *told) partOf(p *media.Packet) (*answer, *part) {
	for i := len(t.answers) - 1; i >= 0; i-- {
		a := &t.answers[i]
		if a.source != 0 && a.source != p.Source || !means(a.response, p.Part.Response) {
			continue
		}
		for at := range a.parts {
			if part := &a.parts[at]; means(part.item, p.Part.Item) {
				a.source = p.Source
				return a, part
			}
		}
	}
	return nil, nil
}

// mustFollow reports whether an event waits for the end of the answer before it: a client knows one answer at a time.
// What it has to know at once does not wait.
func (t *told) mustFollow(ev *realtime.Event) bool {
	if len(t.behind) == 0 {
		return ev.Type == realtime.TypeResponseCreated && t.isOver()
	}
	switch kind, _, _ := strings.Cut(ev.Type, "."); kind {
	case "session", "bridge", "output_audio_buffer":
		return false
	}
	switch ev.Type {
	case realtime.TypeError, realtime.TypeResponseCancel,
		realtime.TypeInputSpeechStarted, realtime.TypeInputSpeechStopped:
		return false
	}
	return true
}

// isOver reports whether the end of an answer is held back.
func (t *told) isOver() bool {
	return slices.ContainsFunc(t.answers, func(a answer) bool {
		return len(a.ends) > 0 && a.ends[len(a.ends)-1].item == ""
	})
}

// hears takes that an answer begins to be heard, and those before it never will be. It reports whether the client has
// stopped it already.
func (t *told) hears(response string) (cut bool) {
	t.playing = response
	for i := range t.answers { // one after the other
		a := &t.answers[i]
		if a.response == response {
			return a.cut
		}
		t.over(a)
	}
	return false
}

// over takes that all of an answer was heard that will be.
func (t *told) over(a *answer) {
	a.heard = true
	t.release(a)
}

// cutOff takes that an answer was not heard to its end. cancelled means that the client is told so.
func (t *told) cutOff(response string, cancelled bool) {
	if a := t.find(response); a != nil {
		a.cut = true
		for i, e := range a.ends {
			a.ends[i].data = asCut(e.data, a.ends, cancelled)
		}
		t.over(a)
	}
}

// asCut returns an event about the end of an answer whose sound was cut off: the items whose ends wait are incomplete,
// and without their words, since nobody knows here which of them were heard. cancelled means that the client has
// cancelled the response.
func asCut(data []byte, ends []end, cancelled bool) []byte {
	tree := realtime.Tree(data)
	items := []any{tree["item"]}
	if response, ok := tree["response"].(map[string]any); ok {
		items, _ = response["output"].([]any)
		if cancelled {
			response["status"] = realtime.ResponseCancelled
			response["status_details"] = map[string]string{
				"type": realtime.ResponseCancelled, "reason": "client_cancelled",
			}
		}
	}
	for _, i := range items {
		item, _ := i.(map[string]any)
		if !slices.ContainsFunc(ends, func(e end) bool { return e.item != "" && e.item == item["id"] }) {
			continue
		}
		item["status"] = realtime.ResponseIncomplete
		content, _ := item["content"].([]any)
		for _, c := range content {
			if part, ok := c.(map[string]any); ok {
				delete(part, "transcript")
			}
		}
	}
	return realtime.Encode(tree)
}

// holdBack keeps an event that says that something with sound is complete, as long as the sound of that answer is not.
func (t *told) holdBack(ev *realtime.Event, data []byte) *answer {
	response := cmp.Or(ev.ResponseID, text(ev.Response, "id"))
	a := t.find(response)
	if a == nil || a.heard {
		return nil
	}
	if ev.Response != nil && text(ev.Response, "status") != realtime.ResponseCompleted && response != t.playing {
		t.over(a) // nothing of it will be heard
		return nil
	}
	item := cmp.Or(ev.ItemID, text(ev.Item, "id"))
	if item != "" && !slices.ContainsFunc(a.parts, func(p part) bool { return p.item == item }) {
		return nil
	}
	a.ends = append(a.ends, end{item, data})
	return a
}

// announced takes that an answer has sound. That of an item is one stream.
func (t *told) announced(response string, p part) {
	a := t.find(response)
	switch {
	case a == nil:
		t.answers = append(t.answers, answer{response: response, parts: []part{p}})
	case !slices.ContainsFunc(a.parts, func(known part) bool { return known.item == p.item }):
		a.parts = append(a.parts, p)
	}
	if len(t.answers) > remembered {
		t.over(&t.answers[0])
		t.answers = slices.Delete(t.answers, 0, 1)
	}
}

// release sends what was held back: all of it once the answer is over, else as far as the sound before it, which comes
// early, has come.
func (t *told) release(a *answer) {
	for len(a.ends) > 0 && (a.heard || !slices.ContainsFunc(a.parts, func(p part) bool {
		return !p.sent && (a.ends[0].item == "" || a.ends[0].item == p.item)
	})) {
		first := a.ends[0]
		a.ends = a.ends[1:]
		t.held -= len(first.data)
		t.to.event(first.data)
		if first.item == "" {
			t.last = realtime.Sent{Done: a.response, At: time.Now()}
		}
	}
}

// means reports whether the call's id is an upstream session's, which has another name in the call if an earlier
// session has used it: see bridge/internal/session.
func means(ours, theirs string) bool {
	return ours == theirs || theirs == "" || strings.HasPrefix(ours, "g") && strings.HasSuffix(ours, "_"+theirs)
}

// partIn reads where an answer has sound.
func partIn(ev *realtime.Event) part {
	var where struct {
		Output int `json:"output_index"`
	}
	_ = json.Unmarshal(ev.Raw, &where) // it is zero mostly
	return part{item: ev.ItemID, output: where.Output, content: ev.ContentIndex}
}

func isSound(kind []byte) bool {
	return string(kind) == `"audio"` || string(kind) == `"`+realtime.ContentOutputAudio+`"`
}

// text reads a member of an object.
func text(object json.RawMessage, name string) (value string) {
	_ = json.Unmarshal(realtime.Member(object, name), &value) // what is not a string is empty
	return value
}
