package ws

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// How much of the model's sound waits to be played. What comes when there is no room waits with the upstream, and so
// does its word that the caller speaks, because it comes behind: so reading should not stop in the middle of an
// answer. Answers of more than a minute are rare, so they share the memory for what is beyond: as samples, since the
// base64 in which they come is a third longer.
const (
	// assured is what every session may have: 3 MB.
	assured = time.Minute
	// maxAhead is more than the longest answer of 4096 tokens.
	maxAhead = 5 * time.Minute
	// maxUtterances is how many parts of items may wait, however short they are.
	maxUtterances = 1024
	// A piece of sound is as long as it came, but one shorter than minPiece is kept with the one before it, and one
	// longer than maxPiece is cut.
	minPiece, maxPiece = 4 << 10, 48_000
	// maxShared is what all sessions of an upstream may have beyond what is assured, in bytes: 22 minutes at 24 kHz.
	maxShared = 64 << 20
)

// shared counts the bytes that sessions have of what they share. It is safe for concurrent use.
type shared struct{ used atomic.Int64 }

// take takes bytes, if there are so many left. A negative number gives some back.
func (s *shared) take(bytes int) bool {
	if s.used.Add(int64(bytes)) <= maxShared || bytes <= 0 {
		return true
	}
	s.used.Add(int64(-bytes))
	return false
}

// utterance is the sound of an item, which is one stream, however many parts it is said to have.
type utterance struct {
	response, item string
	content        int      // the index of its first part
	sound          [][]byte // not played yet, in whole samples
	half           []byte   // of a sample, the rest of which is to come
	left           int      // bytes of sound
	ahead, early   int      // how many pieces of sound were handed on already, and their bytes
	whole          bool     // nothing of it is to come
	over           bool     // whoever gets sound early knows that it has all
	cut            bool     // it was said already how much of it was heard
}

func (u *utterance) part() *media.Part {
	return &media.Part{Response: u.response, Item: u.item, Content: u.content}
}

// add appends sound to what was not played yet, and returns how many bytes of whole samples that is.
func (u *utterance) add(sound []byte, sample int) int {
	sound = append(u.half, sound...)
	n := len(sound) / sample * sample
	sound, u.half = sound[:n], slices.Clone(sound[n:])
	u.left += n
	if last := len(u.sound) - 1; last >= u.ahead && len(u.sound[last])+n <= minPiece {
		u.sound[last] = append(u.sound[last], sound...)
		return n
	}
	u.sound = slices.AppendSeq(u.sound, slices.Chunk(sound, maxPiece))
	return n
}

// ready reports whether there is a frame to play, perhaps a short last one.
func (u *utterance) ready(size int) bool { return u.left >= size || u.whole && u.left > 0 }

// next appends up to n bytes of sound to a frame, and lets go of them.
func (u *utterance) next(frame []byte, n int) []byte {
	for n > 0 && len(u.sound) > 0 {
		part := u.sound[0][:min(n, len(u.sound[0]))]
		frame = append(frame, part...)
		u.sound[0] = u.sound[0][len(part):]
		if n -= len(part); len(u.sound[0]) == 0 {
			u.sound[0] = nil
			u.sound = u.sound[1:]
			u.ahead = max(0, u.ahead-1)
		}
		u.left -= len(part)
		u.early = max(0, u.early-len(part))
	}
	return frame
}

// handOn returns the first piece that was not handed on yet.
func (u *utterance) handOn() []byte {
	piece := u.sound[u.ahead]
	u.ahead++
	u.early += len(piece)
	return piece
}

// cut says how much of an item was played.
type cut struct {
	item    string
	content int
	played  time.Duration
	all     time.Duration // as much of it as has come
}

// playout holds the sound of answers until it is played. An upstream sends it faster than the caller can hear it. A
// remote that plays it by its own clock gets it early: then playout knows what is heard by now.
type playout struct {
	format media.Format
	shared *shared

	mu       sync.Mutex
	queue    []*utterance // the first one is being played
	waiting  int          // bytes in queue
	borrowed int          // of them, of what is shared
	playing  string       // the response whose sound was announced
	remote   uint32       // that gets sound early; 0 for none
	made     []string     // the latest responses that are complete
	stopped  []string     // the latest responses of which nothing more is played
	// sounds has how many bytes have come of each of the latest items, which recent names.
	sounds   map[string]int
	recent   []string
	wake     chan struct{}
	consumed chan struct{} // holds a token when sound was taken out
}

func newPlayout(format media.Format, common *shared) *playout {
	return &playout{
		format: format, shared: common, sounds: make(map[string]int),
		wake: make(chan struct{}, 1), consumed: make(chan struct{}, 1),
	}
}

// use sets the format of all sound; zero leaves it as it is.
func (p *playout) use(f media.Format) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.format = cmp.Or(f, p.format)
}

func (p *playout) current() media.Format {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.format
}

// remembered is how many responses are remembered, of those that were stopped or are complete: more than wait at once.
const remembered = 64

func remember(list []string, id string) []string {
	if slices.Contains(list, id) {
		return list
	}
	return append(list[max(0, len(list)+1-remembered):], id)
}

// add takes sound of an answer. It returns false if there is no room yet.
func (p *playout) add(ev *realtime.Event, sound []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(sound) == 0:
		return true
	case slices.Contains(p.stopped, ev.ResponseID):
		p.count(ev.ItemID, len(sound))
		return true
	}
	tooMuch := p.waiting > 0 && (p.waiting+len(sound) > bytesOf(p.format, maxAhead) || !p.hold(len(sound)))
	if tooMuch || len(p.queue) >= maxUtterances {
		return false
	}
	last := len(p.queue) - 1
	if last < 0 || p.queue[last].item != ev.ItemID || p.queue[last].response != ev.ResponseID {
		if last >= 0 {
			p.queue[last].whole = true
			p.prune()
		}
		p.queue = append(p.queue, &utterance{response: ev.ResponseID, item: ev.ItemID, content: ev.ContentIndex})
	}
	u := p.queue[len(p.queue)-1]
	u.whole, u.over = false, false
	p.waiting += u.add(sound, p.format.Encoding.Size())
	p.count(ev.ItemID, len(sound))
	signal(p.wake)
	return true
}

// count counts bytes of an item, played or not; there is at least one. p.mu is held.
func (p *playout) count(itemID string, bytes int) {
	if p.sounds[itemID] == 0 {
		if len(p.recent) == remembered {
			delete(p.sounds, p.recent[0])
		}
		p.recent = remember(p.recent, itemID)
	}
	p.sounds[itemID] += bytes
}

// sound returns how long an item is, as far as it has come.
func (p *playout) sound(itemID string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.format.Lasts(p.sounds[itemID])
}

// hold makes room for more bytes, if there are as many. p.mu is held.
func (p *playout) hold(more int) bool {
	beyond := max(0, p.waiting+more-bytesOf(p.format, assured)) - p.borrowed
	if !p.shared.take(beyond) {
		return false
	}
	p.borrowed += beyond
	return true
}

// drop takes bytes out of those that wait. p.mu is held.
func (p *playout) drop(bytes int) {
	p.waiting -= bytes
	p.hold(0)
	signal(p.consumed)
}

// complete takes that an item, or a whole response if itemID is empty, has no more sound to come.
func (p *playout) complete(responseID, itemID string) (events []realtime.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.queue {
		if u.response == responseID && (itemID == "" || u.item == itemID) {
			u.whole = true
		}
	}
	if itemID == "" {
		p.made = remember(p.made, responseID)
	}
	p.prune()
	signal(p.wake)
	return p.end(nil)
}

// prune removes what was played to its end.
func (p *playout) prune() {
	for len(p.queue) > 0 && p.queue[0].whole && p.queue[0].left == 0 && (p.remote == 0 || p.queue[0].over) {
		p.queue = p.queue[1:]
		signal(p.consumed)
	}
}

// ahead sets which remote gets sound early, 0 for none. A new one gets what is not played yet.
func (p *playout) ahead(remote uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.remote == remote {
		return
	}
	p.remote = remote
	for _, u := range p.queue {
		u.ahead, u.early = 0, 0
		u.over = false
	}
}

// next returns the next piece of sound for the remote, if there is room for it or the clock is about to play it, or,
// without one, a part that the remote has got to the end. There is no part if there is neither.
func (p *playout) next(room, due bool) (piece []byte, part *media.Part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.remote == 0 {
		return nil, nil
	}
	size := p.format.Frame()
	for i, u := range p.queue {
		left := u.left - u.early
		late := due && i == 0 && u.ready(size) && u.early < min(size, u.left)
		switch {
		case late, room && left >= size, room && left > 0 && u.whole:
			return u.handOn(), u.part()
		case left > 0, !u.whole:
			return nil, nil
		case !u.over:
			u.over = true
			part = u.part()
			part.Last = true
			return nil, part
		}
	}
	return nil, nil
}

// end announces the end of the response that is being played, if that has come.
func (p *playout) end(events []realtime.Event) []realtime.Event {
	next := len(p.queue) > 0 && p.queue[0].response != p.playing
	if p.playing == "" || !next && (len(p.queue) > 0 || !slices.Contains(p.made, p.playing)) {
		return events
	}
	events = append(events, bufferEvent(realtime.TypeOutputBufferStopped, p.playing))
	p.playing = ""
	return events
}

// frame takes out the frame that is played next, padded with silence at the end of an item; it is nil if a remote has
// it already. ok is false if there is no frame yet. The events come before it.
func (p *playout) frame(buf []byte) (frame []byte, ok bool, events []realtime.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prune()
	events = p.end(nil)
	if len(p.queue) == 0 {
		return nil, false, events
	}
	u, size := p.queue[0], p.format.Frame()
	if !u.ready(size) {
		return nil, false, events
	}
	if p.playing != u.response {
		p.playing = u.response
		events = append(events, bufferEvent(realtime.TypeOutputBufferStarted, u.response))
	}
	frame = u.next(buf[:0], size)
	p.drop(len(frame))
	if p.remote != 0 {
		return nil, true, events
	}
	return append(frame, make([]byte, size-len(frame))...), true, events
}

// stop drops what was not played. It returns what that is of each item, and the events that say so. told means that
// they say so even if nothing was being played.
func (p *playout) stop(told bool) (cuts []cut, events []realtime.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prune()
	response := p.playing
	if response == "" && len(p.queue) > 0 {
		response = p.queue[0].response
	}
	if response == "" && !told {
		return nil, nil
	}
	for _, u := range p.queue {
		if all := max(p.sounds[u.item], u.left); !u.cut {
			cuts = append(cuts, cut{u.item, u.content, p.format.Lasts(all - u.left), p.format.Lasts(all)})
		}
		p.stopped = remember(p.stopped, u.response)
	}
	if response != "" {
		p.stopped = remember(p.stopped, response)
	}
	p.queue, p.playing = nil, ""
	p.drop(p.waiting)
	return cuts, []realtime.Event{bufferEvent(realtime.TypeOutputBufferCleared, response)}
}

// truncate drops what was not played of an item, because the client says so. It returns how much of the item has
// come; nothing is known of one that was played to its end.
func (p *playout) truncate(itemID string) (all time.Duration, found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.queue {
		if u.item == itemID {
			all, found = p.format.Lasts(p.sounds[itemID]), true
			p.drop(u.left)
			u.sound, u.left, u.cut = nil, 0, true
			u.ahead, u.early = 0, 0
			u.whole = true
		}
	}
	signal(p.wake)
	return all, found
}

// bufferEvent builds one of output_audio_buffer.*, which an upstream sends over WebRTC only.
func bufferEvent(kind, responseID string) realtime.Event {
	t := tree{"type": kind, "event_id": newID("event_")}
	if responseID != "" {
		t["response_id"] = responseID
	}
	return again(t)[0]
}

// forget has nothing more played of a response, although it is still being made.
func (p *playout) forget(responseID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if responseID != "" {
		p.stopped = remember(p.stopped, responseID)
	}
}

// close lets go of what was not played.
func (p *playout) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = nil
	p.drop(p.waiting)
}
