package live

import (
	"time"

	"voicebridge/realtime"
)

// Times of what the model is to say.
const (
	// settles is how long the model takes to begin to say something, at most: until then a line would cut it off.
	settles = 2500 * time.Millisecond
	// outdated is how long a line waits for a pause. Then the model is only told what it says.
	outdated = 20 * time.Second
	// patience is how long a line that cannot wait does.
	patience = 3 * time.Second
	// firstSound is how long a session may take to say its first line.
	firstSound = 10 * time.Second
)

// maxLines is how many lines wait, at most.
const maxLines = 32

// line is something that the model is to say, in its own words.
type line struct {
	text       string
	delegation string // that it answers, if the upstream knows it; else empty
	urgent     bool
	since      time.Time
}

// lines are what the model is to say, one after the other: a line cuts off what it is saying.
type lines struct {
	*core
	captions *captions
	waiting  []line
	sentAt   time.Time // when the model was told one
	about    time.Time // when it has delegated something, of which it says a word
	// firstBy is when the session counts as one that cannot speak.
	firstBy time.Time
}

// say has the model say a line, as soon as it is quiet.
func (l *lines) say(text, delegation string, urgent bool) {
	if len(l.waiting) >= maxLines {
		l.know(l.waiting[0].text, l.waiting[0].delegation)
		l.waiting = l.waiting[1:]
	}
	l.waiting = append(l.waiting, line{text, delegation, urgent, l.now})
	l.next()
}

// know tells the model something that it need not say.
func (l *lines) know(text, delegation string) { l.append(typeThinking, text, delegation) }

// append sends a text in the parts that a session takes.
func (l *lines) append(kind, text, delegation string) {
	for _, part := range pieces(text) {
		event := tree{"type": kind, "delegation_id": orNull(delegation), "content": part}
		l.command(part, event)
	}
}

// next sends the lines that are due.
func (l *lines) next() {
	for len(l.waiting) > 0 {
		first := l.waiting[0]
		waited := l.now.Sub(first.since)
		if l.busy() && waited < outdated && (!first.urgent || waited < patience) {
			return
		}
		l.waiting = l.waiting[1:]
		if l.busy() && !first.urgent {
			l.know(first.text, first.delegation)
			continue
		}
		l.append(typeCommentary, first.text, first.delegation)
		l.sentAt = l.now
		if l.firstBy.IsZero() && l.captions.last(voice) == nil {
			l.firstBy = l.now.Add(firstSound)
		}
	}
}

// busy reports whether the model speaks, or is about to.
func (l *lines) busy() bool {
	return l.captions.speaking() || l.awaits(l.sentAt, settles) || l.awaits(l.about, settles)
}

// awaits reports whether the model may still begin to say something because of what came then.
func (l *lines) awaits(at time.Time, within time.Duration) bool {
	return !at.IsZero() && l.now.Sub(at) < within && !l.spokeSince(at)
}

// spokeSince reports whether the model has begun to say something since.
func (l *lines) spokeSince(at time.Time) bool {
	s := l.captions.last(voice)
	return s != nil && s.begun.After(at)
}

// expected reports whether the model is about to say a line.
func (l *lines) expected() bool {
	return len(l.waiting) > 0 || l.awaits(l.sentAt, firstSound)
}

// mute reports whether the session has not said its first line in time.
func (l *lines) mute() bool {
	return !l.firstBy.IsZero() && !l.now.Before(l.firstBy) && l.captions.last(voice) == nil
}

// longer is what a refused append is cut to, in bytes.
const shorter = maxAppendOther / 2

// refused sends what was too long again, in shorter parts.
func (l *lines) refused(kind, text, delegation string) {
	for text != "" {
		part := realtime.HeadOf(text, shorter)
		text = text[len(part):]
		l.command("", tree{"type": kind, "delegation_id": orNull(delegation), "content": part})
	}
}
