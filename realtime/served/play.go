package served

import (
	"cmp"
	"maps"
	"slices"
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
}

func (u *utterance) playedMS() int64 { return int64(u.pos) * frameMS }

// spoken returns how many bytes of the text have a sound.
func (u *utterance) spoken() int {
	if len(u.frames) == 0 {
		return 0
	}
	return u.frames[len(u.frames)-1].Spoken
}

// until returns how many frames as much text has, or more if they were played.
func (u *utterance) until(text int) int {
	n, _ := slices.BinarySearchFunc(u.frames, text+1, func(f Frame, at int) int { return cmp.Compare(f.Spoken, at) })
	return max(u.pos, n)
}

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
	format  func() media.Format

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
func (p *player) ticking() bool { return p.active() || p.continuous && !p.next.IsZero() }

// due returns when the next frame is, zero if none is.
func (p *player) due() time.Time {
	if p.ticking() {
		return p.next
	}
	return time.Time{}
}

const (
	frameLength  = media.FrameTime
	frameMS      = int64(frameLength / time.Millisecond)
	frameSamples = media.FrameStep
)

// silentFrame is 20 ms of silence in Opus.
var silentFrame = []byte{0xf8, 0xff, 0xfe}

// add adds a frame of an utterance to the output buffer; if nothing plays, it is sent now.
func (p *player) add(u *utterance, f Frame) {
	u.frames = append(u.frames, f)
	p.spoken = true
	if p.ahead {
		return
	}
	u.item.audioMS += frameMS
	if len(u.frames) > 1 {
		return
	}
	idle := !p.ticking()
	if !p.active() {
		p.begin(u)
	}
	p.queue = append(p.queue, u)
	if !idle {
		return
	}
	now := time.Now()
	p.resume(now)
	p.frame()
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
	if len(p.queue) == 0 || p.queue[0].pos >= len(p.queue[0].frames) {
		p.idle()
		return
	}
	u := p.queue[0]
	p.begin(u)
	p.send(u.frames[u.pos].Opus)
	u.pos++
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
	if p.response != "" && !p.more(p.response) {
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
	p.queue, p.response = nil, ""
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
