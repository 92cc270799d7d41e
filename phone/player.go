package phone

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

const (
	// maxAhead is how much sound waits at the carrier, so that little is lost by an interruption: the piece that is on
	// its way comes to that.
	maxAhead = 1200*time.Millisecond - piece
	piece    = 100 * time.Millisecond
	// maxQueued is how much sound of answers waits here, in bytes.
	maxQueued = 8 << 20
)

// player sends the sound of answers a little ahead of time, and estimates how much of it was heard: from the last mark
// that came back, and the time since. Positions are in bytes since the call began.
type player struct {
	format media.Format
	queue  []byte // not sent yet
	parts  []part // not heard yet, oldest first
	marks  []mark // not come back yet
	named  int
	sent   int64
	heard  int64     // how much was heard at
	at     time.Time // this time, from when on sound plays
	cut    string    // the response that is dropped
}

// part is the sound of an item.
type part struct {
	response, item string
	from, to       int64
}

// mark comes back from the carrier once all before it was played.
type mark struct {
	name string
	at   int64 // after all that was sent, or is to be
	sent bool
}

func (p *player) total() int64 { return p.sent + int64(len(p.queue)) }

// played returns how much was heard.
func (p *player) played(now time.Time) int64 {
	if p.at.IsZero() {
		return p.heard
	}
	return min(p.sent, p.heard+int64(now.Sub(p.at)/media.FrameTime)*int64(p.format.Frame()))
}

// add takes sound of an answer.
func (p *player) add(response, item string, sound []byte) {
	if response == p.cut || len(p.queue)+len(sound) > maxQueued {
		return
	}
	if n := len(p.parts); n == 0 || p.parts[n-1].item != item {
		p.parts = append(p.parts, part{response, item, p.total(), 0})
	}
	p.queue = append(p.queue, sound...)
	p.parts[len(p.parts)-1].to = p.total()
}

// mark asks for a mark after the sound that has come. whole means that no more of it comes: it is filled up with
// silence.
func (p *player) mark(whole bool) {
	if n := len(p.queue) % p.format.Frame(); whole && n > 0 {
		p.queue = append(p.queue, silence(p.format, p.format.Frame()-n)...)
	}
	at := p.total()
	if n := len(p.marks); len(p.parts) == 0 || n > 0 && p.marks[n-1].at == at {
		return
	}
	p.named++
	p.marks = append(p.marks, mark{name: fmt.Sprint("m", p.named), at: at})
}

// next returns the message that is due now, None if there is none.
func (p *player) next(now time.Time) Message {
	i := slices.IndexFunc(p.marks, func(m mark) bool { return !m.sent })
	if i >= 0 && p.marks[i].at <= p.sent {
		p.marks[i].sent = true
		return Message{Kind: Mark, Name: p.marks[i].name}
	}
	played := p.played(now)
	n := min(len(p.queue), int(piece/media.FrameTime)*p.format.Frame())
	n -= n % p.format.Frame()
	if i >= 0 && p.marks[i].at < p.sent+int64(n) {
		p.marks[i].at = p.sent + int64(n) // pieces are whole
	}
	if n == 0 || p.format.Lasts(int(p.sent-played)) > maxAhead {
		return Message{}
	}
	if played == p.sent {
		p.heard, p.at = p.sent, now
	}
	sound := p.queue[:n:n]
	p.queue = p.queue[n:]
	p.sent += int64(n)
	for len(p.parts) > 1 && p.parts[0].to <= played { // of the last more may come
		p.parts = p.parts[1:]
	}
	return Message{Kind: Audio, Sound: sound}
}

// reached takes a mark that came back. One that was forgotten by an interruption says nothing.
func (p *player) reached(name string, now time.Time) {
	if i := slices.IndexFunc(p.marks, func(m mark) bool { return m.name == name && m.sent }); i >= 0 {
		p.heard, p.at = p.marks[i].at, now
		p.marks = p.marks[i+1:]
	}
}

// interrupt drops all that was not heard. It returns the events that say how much of each item was.
func (p *player) interrupt(now time.Time) (events [][]byte) {
	played := p.played(now)
	for _, a := range p.parts {
		if a.to > played {
			ms := p.format.Lasts(int(max(played-a.from, 0))).Milliseconds()
			events = append(events, realtime.ItemTruncate("", a.item, ms))
			p.cut = a.response
		}
	}
	p.queue, p.parts, p.marks = nil, nil, nil
	p.heard, p.at = p.sent, now
	return events
}

// silence returns bytes of silence.
func silence(f media.Format, bytes int) []byte {
	return f.Encoding.Append(nil, make([]int16, bytes/f.Encoding.Size()))
}

// endsSentence reports whether a piece of a transcript has the end of a sentence.
func endsSentence(delta string) bool {
	delta = strings.TrimRight(delta, " \n\"')”")
	return strings.HasSuffix(delta, ".") || strings.ContainsAny(delta, "!?。！？") || strings.Contains(delta, ". ")
}
