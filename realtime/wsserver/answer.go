package wsserver

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

const (
	// maxEarlySound is how much sound may wait for the client beside what is due.
	maxEarlySound = 10 * time.Second
	// maxUnnamed is how much of it may wait for the event that says what it is part of, beside what is due, and
	// maxUnnamedSound how much at all.
	maxUnnamed, maxUnnamedSound = time.Second, maxUnread * time.Millisecond
)

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

// Sent is how far a client was sent the answers of a call, which is what it knows of them.
type Sent struct {
	Pending []string  // responses of which it has not been sent all sound, and so not the end
	Done    string    // the response whose end it was sent last, empty for none
	At      time.Time // and when
}

// end is an event that says that something with sound is complete: an item or, if that is empty, the response.
type end struct {
	item string
	data []byte
}

// means reports whether the call's id is an upstream session's, which has another name in the call if an earlier
// session has used it: see bridge/internal/session.
func means(ours, theirs string) bool {
	return ours == theirs || theirs == "" || strings.HasPrefix(ours, "g") && strings.HasSuffix(ours, "_"+theirs)
}

// partOf returns the part of an answer that a packet is of, nil if it was not announced yet.
func (o *output) partOf(p *media.Packet) (*answer, *part) {
	for i := len(o.answers) - 1; i >= 0; i-- {
		a := &o.answers[i]
		if a.source != 0 && a.source != p.Source || !means(a.response, p.Part.Response) {
			continue
		}
		for at := range a.parts {
			if part := &a.parts[at]; part.content == p.Part.Content && means(part.item, p.Part.Item) {
				a.source = p.Source
				return a, part
			}
		}
	}
	return nil, nil
}

func (o *output) find(response string) *answer {
	i := slices.IndexFunc(o.answers, func(a answer) bool { return a.response == response })
	if i < 0 {
		return nil
	}
	return &o.answers[i]
}

// announced takes where an answer has sound.
func (o *output) announced(ev *realtime.Event) {
	if ev.Type == realtime.TypeContentPartAdded && !isSound(realtime.Member(ev.Part, "type")) {
		return
	}
	isThis := func(p part) bool { return p.item == ev.ItemID && p.content == ev.ContentIndex }
	a := o.find(ev.ResponseID)
	if a != nil && slices.ContainsFunc(a.parts, isThis) {
		return
	}
	var where struct {
		Output int `json:"output_index"`
	}
	_ = json.Unmarshal(ev.Raw, &where) // it is zero mostly
	parts := []part{{item: ev.ItemID, output: where.Output, content: ev.ContentIndex}}
	if a != nil {
		a.parts = append(a.parts, parts...)
		return
	}
	o.answers = append(o.answers, answer{response: ev.ResponseID, parts: parts})
	if len(o.answers) > remembered {
		o.release(&o.answers[0])
		o.answers = slices.Delete(o.answers, 0, 1)
	}
}

func isSound(kind []byte) bool {
	return string(kind) == `"audio"` || string(kind) == `"`+realtime.ContentOutputAudio+`"`
}

// holdBack keeps an event that says that something with sound is complete, as long as the sound is not.
func (o *output) holdBack(ev *realtime.Event, data []byte) bool {
	response, item := ev.ResponseID, ev.ItemID
	if ev.Response != nil {
		response = text(ev.Response, "id")
	}
	a := o.find(response)
	if a == nil || a.heard {
		return false
	}
	if ev.Response != nil && text(ev.Response, "status") != realtime.ResponseCompleted && response != o.playing {
		o.finish(response) // nothing of it will be heard
		return false
	}
	if ev.Item != nil {
		item = text(ev.Item, "id")
	}
	if item != "" && !slices.ContainsFunc(a.parts, func(p part) bool { return p.item == item }) {
		return false
	}
	a.ends = append(a.ends, end{item, data})
	o.watch()
	o.hold(len(data))
	o.releaseSent(a)
	return true
}

// text reads a member of an object.
func text(object json.RawMessage, name string) (value string) {
	_ = json.Unmarshal(realtime.Member(object, name), &value) // what is not a string is empty
	return value
}

// release sends what was held back.
func (o *output) release(a *answer) {
	for len(a.ends) > 0 {
		o.sendEnd(a)
	}
}

// sendEnd sends the first of the events that were held back.
func (o *output) sendEnd(a *answer) {
	first := a.ends[0]
	a.ends = a.ends[1:]
	o.hold(-len(first.data))
	o.to.event(first.data)
	if first.item == "" {
		o.last = Sent{Done: a.response, At: time.Now()}
	}
}

// releaseSent sends what was held back until the sound before it, which comes early, had come.
func (o *output) releaseSent(a *answer) {
	for len(a.ends) > 0 && !slices.ContainsFunc(a.parts, func(p part) bool {
		return !p.sent && (a.ends[0].item == "" || a.ends[0].item == p.item)
	}) {
		o.sendEnd(a)
	}
}
