package wsserver

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/transcode"
)

const (
	// deltaMS is how much sound an event has.
	deltaMS = 40
	// Sound and the events that say when it begins and ends do not come the same way. What comes before its beginning
	// was announced is kept, so much of it; and after its end was announced, some may still come.
	maxUnannounced = 500 * time.Millisecond
	trailing       = 60 * time.Millisecond
	// unannounced is how long sound goes on until the newest answer is taken for what is heard, where nothing is
	// announced, or waits for its announcement if it says itself what it is part of.
	unannounced = 200 * time.Millisecond
	// soundless is how long an answer may be without sound until its end is no longer held back.
	soundless = 2 * time.Second
	// hush is the level, in dBFS, below which there is no sound.
	hush = -70
	// remembered is how many answers are remembered.
	remembered = 64
)

// output makes events of the model's sound. A client takes the end of an answer for the end of its sound, but the
// call is told of it as soon as the answer is made, long before it was heard: the events that say so are held back
// until then.
type output struct {
	to    *queue
	input func() media.Format // the format of the other side

	mu      sync.Mutex
	format  media.Format
	next    media.Format // what the client has asked for, from the next session.updated on
	closed  bool
	returns bool // a client that came back, which is told first what its session is
	reader  *transcode.Reader
	bytes   []byte         // sound that is no event yet
	early   []media.Packet // sound that comes before it is heard, and waits for what it is part of to be announced
	awaited *media.Part    // of the first of it
	made    string         // the latest response of which the client was told
	answers []answer       // the latest ones with sound, oldest first
	playing string         // the response that is heard
	cut     bool           // the client has stopped what is heard, though the upstream may go on with it
	behind  [][]byte       // events of the next answer, until the client is told the end of the one before
	pending int            // bytes of the events that are held back
	last    Sent           // what was sent last of the ends of answers
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
func (o *output) sent() Sent {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.last
	for i := range o.answers {
		if a := &o.answers[i]; !a.heard && a.source == 0 {
			t.Pending = append(t.Pending, a.response)
		}
	}
	return t
}

// succeed takes over the format, and what is known of the answers.
func (o *output) succeed(before *output) {
	before.mu.Lock()
	defer before.mu.Unlock()
	o.format, o.next = before.format, before.next
	o.playing, o.returns = before.playing, true
	o.made = before.made
	o.answers = slices.Clone(before.answers)
	for i := range o.answers {
		a := &o.answers[i]
		a.ends, a.parts = nil, slices.Clone(a.parts) // the ends were for the other one
		for at := range a.parts {
			a.parts[at].sent = false // what is not heard yet comes again
		}
	}
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
	sound, quiet, err := o.convert(o.bytes, p)
	if o.bytes = sound; o.cut {
		o.bytes = sound[:0]
	}
	if o.playing == "" {
		o.unannounced(quiet)
		o.follow()
		return err
	}
	if o.length() >= deltaMS*time.Millisecond {
		o.flush()
	}
	return err
}

// convert appends the sound of a packet in the client's format.
func (o *output) convert(sound []byte, p *media.Packet) (more []byte, quiet bool, err error) {
	if p.Format == o.format {
		return append(sound, p.Payload...), false, nil
	}
	if o.reader == nil {
		o.reader = transcode.NewReader(o.format.Rate)
	}
	samples, err := o.reader.Read(p)
	return o.format.Encoding.Append(sound, samples), pcm.Level(samples) < hush, err
}

func (o *output) length() time.Duration { return o.format.Lasts(len(o.bytes)) }

// unannounced keeps the sound that comes while nothing is heard: an upstream sends silence then, or the beginning of
// what it announces just now.
func (o *output) unannounced(quiet bool) {
	if quiet {
		o.bytes = o.bytes[:0]
		return
	}
	o.trim()
	if n := len(o.answers); n > 0 && !o.answers[n-1].heard && o.length() >= unannounced {
		o.begin(o.answers[n-1].response)
	}
}

// trim drops what is too old of the sound.
func (o *output) trim() {
	if excess := o.length() - maxUnannounced; excess > 0 {
		o.bytes = slices.Delete(o.bytes, 0, int(excess/media.FrameTime)*o.format.Frame())
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

func (o *output) find(response string) *answer {
	i := slices.IndexFunc(o.answers, func(a answer) bool { return a.response == response })
	if i < 0 {
		return nil
	}
	return &o.answers[i]
}

// partOf returns the part of an answer that a packet is of, nil if it was not announced yet.
func (o *output) partOf(p *media.Packet) (*answer, *part) {
	for i := len(o.answers) - 1; i >= 0; i-- {
		a := &o.answers[i]
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

// unnamed returns how much sound waits for the event that says what it is part of.
func (o *output) unnamed() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unnamedSound()
}

func (o *output) unnamedSound() (d time.Duration) {
	for i := range o.early {
		d += o.early[i].Format.Lasts(len(o.early[i].Payload))
	}
	return d
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
			o.releaseSent(a)
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
		o.hold(len(data))
		return
	}
	o.pass(&ev, data)
	o.follow()
}

// mustFollow reports whether an event waits for the end of the answer before it: a client knows one answer at a time.
// What it has to know at once does not wait.
func (o *output) mustFollow(ev *realtime.Event) bool {
	if len(o.behind) == 0 {
		return ev.Type == realtime.TypeResponseCreated && o.isOver()
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
func (o *output) isOver() bool {
	return slices.ContainsFunc(o.answers, func(a answer) bool {
		return len(a.ends) > 0 && a.ends[len(a.ends)-1].item == ""
	})
}

// follow sends what waited for the end of an answer, once that was sent.
func (o *output) follow() {
	for len(o.behind) > 0 && !o.isOver() {
		data := o.behind[0]
		o.behind = o.behind[1:]
		o.hold(-len(data))
		ev, _ := realtime.Decode(data) // it was decoded before
		o.pass(&ev, data)
	}
}

// hold counts the bytes that are held back. If there are too many, the answers that they wait for are over.
func (o *output) hold(bytes int) {
	if o.pending += bytes; bytes <= 0 || o.pending <= highWater {
		return
	}
	for i := range o.answers {
		o.finish(o.answers[i].response)
	}
	o.follow()
}

// pass takes an event that waits for no other one.
func (o *output) pass(ev *realtime.Event, data []byte) {
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
		o.to.event(withFormats(*ev, o.input(), o.format))
		o.returns = false
		_ = o.sendEarly() // the sound that cannot be read is left out
		return
	case realtime.TypeSessionUpdated:
		o.change()
		data = withFormats(*ev, o.input(), o.format)
	case realtime.TypeResponseCreated:
		o.made = text(ev.Response, "id")
		data = withFormats(*ev, o.input(), o.format)
	case realtime.TypeContentPartAdded, realtime.TypeAudioTranscriptDelta:
		if ev.Type != realtime.TypeContentPartAdded || isSound(realtime.Member(ev.Part, "type")) {
			o.announced(ev.ResponseID, partIn(ev))
		}
		o.to.event(data)
		_ = o.sendEarly()
		return
	case realtime.TypeOutputAudioDone, realtime.TypeContentPartDone,
		realtime.TypeOutputItemDone, realtime.TypeResponseDone:
		o.lastSound(ev)
		if ev.Response != nil {
			data = withFormats(*ev, o.input(), o.format)
		}
		if o.holdBack(ev, data) {
			return
		}
	}
	o.to.event(data)
	if ev.Type == realtime.TypeResponseDone {
		o.last = Sent{Done: text(ev.Response, "id"), At: time.Now()}
	}
}

// lastSound takes that what has come of the sound before an event needs no other announcement.
func (o *output) lastSound(ev *realtime.Event) {
	switch ev.Type {
	case realtime.TypeOutputAudioDone:
		o.announced(ev.ResponseID, partIn(ev))
	case realtime.TypeResponseDone:
		o.nameEarly(text(ev.Response, "id"))
	default:
		return
	}
	_ = o.sendEarly()
}

// cutOff ends the sound of an answer before its end. cancelled means that the client is told so.
func (o *output) cutOff(response string, cancelled bool) {
	o.to.silence()
	if o.bytes, o.early = o.bytes[:0], nil; response != "" && response == o.playing {
		o.cut = true
	}
	a := o.find(response)
	if a == nil {
		return
	}
	a.cut = true
	for i, e := range a.ends {
		a.ends[i].data = asCut(e.data, a.ends, cancelled)
	}
	a.heard = true
	o.release(a)
}

// partIn reads where an answer has sound.
func partIn(ev *realtime.Event) part {
	var where struct {
		Output int `json:"output_index"`
	}
	_ = json.Unmarshal(ev.Raw, &where) // it is zero mostly
	return part{item: ev.ItemID, output: where.Output, content: ev.ContentIndex}
}

// announced takes that an answer has sound. That of an item is one stream.
func (o *output) announced(response string, p part) {
	a := o.find(response)
	switch {
	case a == nil:
		o.answers = append(o.answers, answer{response: response, parts: []part{p}})
	case !slices.ContainsFunc(a.parts, func(known part) bool { return known.item == p.item }):
		a.parts = append(a.parts, p)
	}
	if len(o.answers) > remembered {
		o.release(&o.answers[0])
		o.answers = slices.Delete(o.answers, 0, 1)
	}
}

func isSound(kind []byte) bool {
	return string(kind) == `"audio"` || string(kind) == `"`+realtime.ContentOutputAudio+`"`
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
	for i := range o.answers { // one after the other
		if o.answers[i].response == response {
			break
		}
		o.finish(o.answers[i].response)
	}
	o.playing = response
	a := o.find(response)
	o.cut = a != nil && a.cut
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
		a.heard = true
		o.release(a)
	}
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
	for i := range o.answers {
		o.finish(o.answers[i].response)
	}
	o.follow()
	for _, timer := range []*time.Timer{o.ending, o.overdue} {
		if timer != nil {
			timer.Stop()
		}
	}
}
