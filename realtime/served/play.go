package served

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/transcode"
)

// utterance is the audio of one assistant item.
type utterance struct {
	response string
	item     *Item
	frames   []Frame
	over     bool // there will be no more
	pos      int

	end     int       // how many bytes of the text are spoken or skipped
	skipped [][2]int  // parts of the text
	began   time.Time // when it was first heard
	resumed int       // how often it went on after what was no interruption
}

func (u *utterance) playedMS() int64 { return int64(u.pos) * frameMS }

// spokenText returns the text without what was skipped.
func (u *utterance) spokenText() string {
	var b strings.Builder
	at, text := 0, u.item.Words
	for _, part := range u.skipped {
		b.WriteString(text[at:min(part[0], len(text))])
		at = min(part[1], len(text))
	}
	return strings.TrimSpace(b.String() + text[at:])
}

// from returns how many frames as much text has.
func (u *utterance) from(text int) int {
	n, _ := slices.BinarySearchFunc(u.frames, text+1, func(f Frame, at int) int { return cmp.Compare(f.Spoken, at) })
	return n
}

// until returns how many frames as much text has, or more if they were played.
func (u *utterance) until(text int) int { return max(u.pos, u.from(text)) }

// player is the output buffer of the session, played at one frame per 20 ms. It belongs to the session's goroutine.
type player struct {
	queue     []*utterance // the first one is being played
	response  string       // whose audio is playing: started was sent, stopped was not
	next      time.Time    // when the next frame is due
	sequence  uint16
	timestamp uint32
	packet    media.Packet
	spoken    bool // there was audio: the voice is locked
	// continuous means that silence is sent while nothing plays.
	continuous bool
	// ahead means that sound goes out in events, as soon as it is made; the client plays it.
	ahead   bool
	decoder *transcode.Reader // for that
	held    bool              // nothing plays, until release or flush
	// exact means that Frames say what was heard, and that they are made a while ahead only.
	exact  bool
	room   func() // has the Mouth go on; nil if it does not wait
	format func() media.Format

	wire  *wire
	items *items
	more  func(response string) bool // reports whether more audio may come
	quiet func()                     // called when a response has been heard to its end
}

// say sends the frames of as much text in events, while there are at least so many. That is all that the item has so
// far.
func (p *player) say(u *utterance, text, least int, where object) {
	format := p.format()
	if p.decoder == nil {
		p.decoder = transcode.NewReader(format.Rate)
	}
	p.spoken = true
	for end := u.until(text); end-u.pos >= least; {
		var sound []byte
		for n := 0; n < framesPerEvent && u.pos < end; n++ {
			p.packet = media.Packet{
				Source: 1, Sequence: p.sequence, Timestamp: p.timestamp, Payload: u.frames[u.pos].Opus,
			}
			samples, _ := p.decoder.Read(&p.packet) // what cannot be read is silence
			sound = format.Encoding.Append(sound, samples)
			p.sequence, p.timestamp = p.sequence+1, p.timestamp+frameSamples
			u.pos++
		}
		event := maps.Clone(where)
		event["delta"] = sound // in base64
		p.wire.emit(event)
	}
	u.item.audioMS = u.playedMS()
}

// framesPerEvent is how much sound an event has: 200 ms.
const framesPerEvent = 10

func (p *player) active() bool { return len(p.queue) > 0 || p.response != "" }

// ticking reports whether a frame is due every 20 ms.
func (p *player) ticking() bool {
	return p.active() && !p.held || p.continuous && !p.next.IsZero()
}

// due returns when the next frame is, zero if none is.
func (p *player) due() time.Time {
	if p.ticking() {
		return p.next
	}
	return time.Time{}
}

// silentFrame is 20 ms of silence in Opus.
var silentFrame = []byte{0xf8, 0xff, 0xfe}

// maxAhead is how many frames of a message wait to be heard before its Mouth does: ten seconds.
const maxAhead = 500

// add adds a frame of an utterance to the output buffer, and says when there is room for the next; if nothing plays, it
// is sent now.
func (p *player) add(u *utterance, f Frame, room func()) {
	if f.Opus == nil {
		room()
		return
	}
	u.frames = append(u.frames, f)
	if p.exact && len(u.frames)-u.pos > maxAhead {
		p.room = room
	} else {
		room()
	}
	p.spoken = true
	if p.ahead {
		return
	}
	u.item.audioMS += frameMS
	if p.exact {
		u.item.spoken = append(u.item.spoken, f.Spoken)
	}
	if len(u.frames) > 1 {
		return
	}
	idle := !p.ticking()
	if !p.active() && !p.held {
		p.begin(u)
	}
	p.queue = append(p.queue, u)
	if idle && !p.held {
		p.resume(time.Now())
		p.frame()
	}
}

// hold stops what plays.
func (p *player) hold() { p.held = true }

// release has what plays go on, from the word at which it was stopped.
func (p *player) release() {
	if !p.held {
		return
	}
	p.held = false
	if !p.active() {
		return
	}
	if len(p.queue) > 0 {
		if u := p.queue[0]; u.pos > 0 {
			u.pos = min(u.pos, u.from(wordStart(u.item.Words, u.frames[u.pos-1].Spoken)))
			u.resumed++
			p.wire.emit(object{
				"type": realtime.TypeSpeech, "response_id": u.response, "item_id": u.item.ID, "resumed": u.resumed,
			})
		}
	}
	if !p.continuous {
		p.resume(time.Now())
	}
}

// resume continues the RTP clock after silence: the timestamp advances by the time elapsed, the
// sequence number does not (RFC 3550, section 5.1).
func (p *player) resume(now time.Time) {
	if p.next.IsZero() {
		p.sequence, p.timestamp = 1, 960
	} else if gap := now.Sub(p.next); gap > 0 {
		p.timestamp += uint32(gap/frameLength) * frameSamples
	}
	p.packet.Marker = true
	p.next = now
}

// frame sends the frame that is due.
func (p *player) frame() {
	for len(p.queue) > 0 && p.queue[0].over && p.queue[0].pos >= len(p.queue[0].frames) {
		p.queue = p.queue[1:]
	}
	if len(p.queue) == 0 || p.held || p.queue[0].pos >= len(p.queue[0].frames) {
		p.idle()
		return
	}
	u := p.queue[0]
	p.begin(u)
	if u.began.IsZero() {
		u.began = time.Now()
	}
	p.send(u.frames[u.pos].Opus)
	u.pos++
	if room := p.room; room != nil {
		p.room = nil
		room()
	}
}

// begin says whose audio is playing from now on.
func (p *player) begin(u *utterance) {
	if u.response != p.response {
		p.stopped()
		p.response = u.response
		p.wire.emit(object{"type": realtime.TypeOutputBufferStarted, "response_id": u.response})
	}
}

// idle takes the place of a frame while the buffer is empty. If its response has no more to come, playback has stopped.
func (p *player) idle() {
	if p.response != "" && !p.held && !p.more(p.response) {
		p.stopped()
	}
	switch {
	case p.continuous:
		p.send(silentFrame)
	case p.response != "":
		// The clock goes on.
		p.next = p.next.Add(frameLength)
		p.timestamp += frameSamples
		p.packet.Marker = true
	}
}

func (p *player) send(frame []byte) {
	p.packet.Source = 1
	p.packet.Sequence, p.packet.Timestamp = p.sequence, p.timestamp
	p.packet.Payload = frame
	p.wire.sound(&p.packet)
	p.sequence++
	p.timestamp += frameSamples
	p.packet.Marker = false
	p.next = p.next.Add(frameLength)
}

// stopped ends the playback of a response that was heard to its end.
func (p *player) stopped() {
	if p.response == "" {
		return
	}
	id := p.response
	p.response = ""
	p.wire.emit(object{"type": realtime.TypeOutputBufferStopped, "response_id": id})
	p.quiet()
}

// flush drops what has not been played and says so: cleared for the response, truncated for each of its items that was
// not heard to its end.
func (p *player) flush() {
	if !p.active() {
		return
	}
	queue, response := p.queue, p.response
	p.queue, p.response, p.held, p.room = nil, "", false, nil
	if response == "" {
		response = queue[0].response
	}
	p.wire.emit(object{"type": realtime.TypeOutputBufferCleared, "response_id": response})
	for _, u := range queue {
		if u.pos < len(u.frames) {
			p.items.truncated(u.item, u.playedMS())
		}
	}
}

// clear answers output_audio_buffer.clear.
func (p *player) clear() {
	if p.active() {
		p.flush()
		return
	}
	p.wire.emit(object{"type": realtime.TypeOutputBufferCleared})
}

// limit cuts the sound of an utterance to that of as much text.
func (p *player) limit(u *utterance, text int) {
	u.over = true
	u.frames = u.frames[:u.until(text)]
	u.item.audioMS = int64(len(u.frames)) * frameMS
}
