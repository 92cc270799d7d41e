package wsserver

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

const (
	// deltaMS is how much sound an event has.
	deltaMS = 40
	// Sound and the events that say when it begins and ends do not come the same way: after its end was announced, some
	// may still come.
	trailing = 60 * time.Millisecond
	// unannounced is how long sound goes on until the newest answer is taken for what is heard, where nothing is
	// announced, or waits for its announcement if it says itself what it is part of.
	unannounced = 200 * time.Millisecond
	// soundless is how long an answer may be without sound until its end is no longer held back.
	soundless = 2 * time.Second
)

// output makes events of the model's sound. A client takes the end of an answer for the end of its sound, but the
// call is told of it as soon as the answer is made, long before it was heard: the events that say so are held back
// until then.
type output struct {
	told                      // written with each event of the call, and with sound
	sound                     // written with each packet
	input func() media.Format // the format of the other side

	mu      sync.Mutex
	closed  bool
	returns bool // a client that came back, which is told first what its session is
	stops   func(response string)
	awaited *media.Part // of the first sound that comes early
	cut     bool        // the client has stopped what is heard, though the upstream may go on with it
	ending  *time.Timer
	overdue *time.Timer // for the answers whose ends are held back
}

func (o *output) init(to *queue, input func() media.Format) {
	o.to, o.input = to, input
	o.format, o.next = linear, linear
}

// use sets the format of what follows the answer to the client's request; zero asks for nothing.
func (o *output) use(f media.Format) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next = cmp.Or(f, o.next)
}

// change puts the format into force that the client has asked for.
func (o *output) change() {
	if o.next == o.format {
		return
	}
	o.flush()
	o.bytes = reformat(o.bytes, o.format, o.next)
	o.format, o.reader = o.next, nil
}

// sent returns how far the client was sent the answers.
func (o *output) sent() realtime.Sent {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.told.sent()
}

// succeed takes over the format, and what is known of the answers.
func (o *output) succeed(before *output) {
	before.mu.Lock()
	defer before.mu.Unlock()
	o.format, o.next = before.format, before.next
	o.playing, o.returns = before.playing, true
	o.resume(&before.told)
}

// write takes a packet.
func (o *output) write(p *media.Packet) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return media.ErrClosed
	}
	if p.Part != nil {
		return o.comesEarly(p)
	}
	if o.playing == "" && len(o.bytes) == 0 {
		o.pause()
	}
	before := len(o.bytes)
	sound, quiet, err := o.convert(o.bytes, p)
	if o.bytes = sound; o.cut {
		o.bytes = sound[:0]
	}
	if o.playing == "" {
		o.unannounced(len(sound)-before, quiet)
		o.follow()
		return err
	}
	if o.length() >= deltaMS*time.Millisecond {
		o.flush()
	}
	return err
}

// unannounced keeps the sound that comes while nothing is heard: an upstream sends silence then, or the beginning of
// what it announces soon. GPT-Live does so some words later, when a short answer may be over.
func (o *output) unannounced(bytes int, quiet bool) {
	o.hushed += bytes
	if !quiet {
		o.hushed = 0
	}
	if o.trim(); o.hushed >= len(o.bytes) {
		o.bytes, o.hushed = o.bytes[:0], 0
		return
	}
	if n := len(o.answers); n > 0 && !o.answers[n-1].heard && o.length() >= unannounced {
		o.begin(o.answers[n-1].response)
	}
}

// flush sends what there is of the sound.
func (o *output) flush() {
	a := o.find(o.playing)
	switch {
	case len(o.bytes) == 0:
		return
	case a == nil, o.returns: // its item, or the session, will be announced
		o.trim()
		return
	}
	o.delta(a, &a.parts[0], o.bytes)
	o.bytes = o.bytes[:0]
}

// delta sends sound of a part of an answer.
func (o *output) delta(a *answer, part *part, sound []byte) {
	const event = `{"type":"` + realtime.TypeOutputAudioDelta + `","event_id":%q,"response_id":%q,"item_id":%q,` +
		`"output_index":%d,"content_index":%d,"delta":%q}`
	delta := base64.StdEncoding.EncodeToString(sound)
	data := fmt.Appendf(nil, event, newID("event_"), a.response, part.item, part.output, part.content, delta)
	o.to.sound(data, int(o.format.Lasts(len(sound)).Milliseconds()))
	o.watch()
}

// unnamed returns how much sound waits for the event that says what it is part of.
func (o *output) unnamed() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unnamedSound()
}

// comesEarly takes a packet that comes before it is heard.
func (o *output) comesEarly(p *media.Packet) error {
	if p.Part.Last || o.unnamedSound() < maxUnnamedSound {
		o.early = append(o.early, p.Clone())
	}
	err := o.sendEarly()
	o.follow()
	return err
}

// sendEarly sends what is known of the sound that comes early, each packet as an event.
func (o *output) sendEarly() (err error) {
	for len(o.early) > 0 && !o.returns {
		p := &o.early[0]
		a, part := o.partOf(p)
		if a == nil {
			o.waitFor(p.Part)
			break
		}
		o.early = o.early[1:]
		if p.Part.Last {
			part.sent = true
			o.release(a)
			continue
		}
		sound, _, failed := o.convert(nil, p)
		err = errors.Join(err, failed)
		o.delta(a, part, sound)
	}
	return err
}

// waitFor waits a moment for the announcement of what the first sound is part of, and takes it for what it says itself
// if none comes.
func (o *output) waitFor(part *media.Part) {
	if o.awaited == part {
		return
	}
	o.awaited = part
	time.AfterFunc(unannounced, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.early) > 0 && o.early[0].Part == part {
			o.nameEarly(part.Response)
			_ = o.sendEarly() // the sound that cannot be read is left out
			o.follow()
		}
	})
}

// nameEarly gives the sound of a response the names that it has itself.
func (o *output) nameEarly(response string) {
	for i := range o.early {
		p := &o.early[i]
		if a, _ := o.partOf(p); a != nil || !means(response, p.Part.Response) {
			continue
		}
		answer := p.Part.Response
		if means(o.made, answer) {
			answer = o.made
		}
		o.announced(answer, part{item: p.Part.Item, content: p.Part.Content})
	}
}

// event takes an event of the call, and sends it, perhaps later or changed.
func (o *output) event(data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ev, err := realtime.Decode(data)
	if err == nil && o.mustFollow(&ev) {
		o.behind = append(o.behind, data)
		o.keep(data)
		return
	}
	o.pass(&ev, data)
	o.follow()
}

// follow sends what waited for the end of an answer, once that was sent.
func (o *output) follow() {
	for len(o.behind) > 0 && !o.isOver() {
		data := o.behind[0]
		o.behind = o.behind[1:]
		o.held -= len(data)
		ev, _ := realtime.Decode(data) // it was decoded before
		o.pass(&ev, data)
	}
}

// keep counts an event that is held back. If there are too many, the answers that they wait for are over.
func (o *output) keep(data []byte) {
	if o.held += len(data); o.held > highWater {
		o.finishAll()
	}
}

// finishAll takes that all answers are over, and sends what waited for that.
func (o *output) finishAll() {
	for i := range o.answers {
		o.finish(o.answers[i].response)
	}
	o.follow()
}

// pass takes an event that waits for no other one.
func (o *output) pass(ev *realtime.Event, data []byte) {
	if ev.Type == realtime.TypeSessionUpdated {
		o.change()
	}
	if ev.Session != nil || ev.Response != nil {
		data = withFormats(*ev, o.input(), o.format)
	}
	switch ev.Type {
	case realtime.TypeOutputBufferStarted:
		o.begin(ev.ResponseID)
		return
	case realtime.TypeOutputBufferStopped:
		o.stopped(cmp.Or(ev.ResponseID, o.playing))
		return
	case realtime.TypeOutputBufferCleared:
		o.cutOff(o.playing, false)
		o.cutOff(ev.ResponseID, false)
		o.playing, o.cut = "", false
		return
	case realtime.TypeResponseCancel, realtime.TypeOutputBufferClear: // the client has stopped an answer
		o.cutOff(ev.ResponseID, ev.Type == realtime.TypeResponseCancel)
		return
	case realtime.TypeSessionCreated:
		o.returns = false
	case realtime.TypeResponseCreated:
		o.made = text(ev.Response, "id")
	case realtime.TypeContentPartAdded, realtime.TypeAudioTranscriptDelta:
		if ev.Type != realtime.TypeContentPartAdded || isSound(realtime.Member(ev.Part, "type")) {
			o.announced(ev.ResponseID, partIn(ev))
		}
	case realtime.TypeOutputAudioDone, realtime.TypeContentPartDone,
		realtime.TypeOutputItemDone, realtime.TypeResponseDone:
		// What has come of the sound before needs no other announcement.
		if ev.Type == realtime.TypeOutputAudioDone {
			o.announced(ev.ResponseID, partIn(ev))
		} else if ev.Response != nil {
			o.nameEarly(text(ev.Response, "id"))
		}
		_ = o.sendEarly() // the sound that cannot be read is left out
		if a := o.holdBack(ev, data); a != nil {
			o.watch()
			o.keep(data)
			o.release(a)
			return
		}
	}
	o.to.event(data)
	if ev.Type == realtime.TypeResponseDone {
		o.last = realtime.Sent{Done: text(ev.Response, "id"), At: time.Now()}
	}
	_ = o.sendEarly()
}

// cutOff ends the sound of an answer before its end. cancelled means that the client is told so.
func (o *output) cutOff(response string, cancelled bool) {
	o.to.silence()
	if o.bytes, o.early = o.bytes[:0], nil; response != "" && response == o.playing {
		o.cut = true
	}
	if o.stops != nil && response != "" {
		o.stops(response)
	}
	o.told.cutOff(response, cancelled)
}

// begin takes the beginning of the sound of an answer.
func (o *output) begin(response string) {
	if response == "" && len(o.answers) > 0 {
		response = o.answers[len(o.answers)-1].response
	}
	if o.playing == response {
		return
	}
	if o.playing != "" {
		o.finish(o.playing)
	}
	o.cut = o.hears(response)
	o.pause()
	o.watch()
}

// stopped takes the end of the sound of an answer, once what came late has come.
func (o *output) stopped(response string) {
	if o.ending != nil {
		o.ending.Stop()
	}
	o.ending = time.AfterFunc(trailing, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.finish(response)
		o.follow()
	})
}

// finish ends the sound of an answer.
func (o *output) finish(response string) {
	if response == o.playing {
		o.flush()
		o.bytes = o.bytes[:0]
		o.playing, o.cut = "", false
	}
	if a := o.find(response); a != nil {
		o.over(a)
	}
}

// watch has the ends of answers sent if no sound comes any more.
func (o *output) watch() {
	if o.overdue != nil {
		o.overdue.Reset(soundless)
		return
	}
	o.overdue = time.AfterFunc(soundless, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.to.waiting() > 0 { // it comes, but is not read
			o.overdue.Reset(soundless)
			return
		}
		for i := range o.answers {
			if len(o.answers[i].ends) > 0 {
				o.finish(o.answers[i].response)
			}
		}
		o.follow()
	})
}

// close sends what was held back, and takes no more sound.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.flush()
	o.finishAll()
	for _, timer := range []*time.Timer{o.ending, o.overdue} {
		if timer != nil {
			timer.Stop()
		}
	}
}
