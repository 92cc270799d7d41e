package web

import (
	"sync"
	"time"

	"voicebridge/phone"
)

// Phone are the lines that are answered.
type Phone struct {
	phone.Settings

	// PublicURL is the address by which carriers reach this server.
	PublicURL string
	// Grace is how long a call waits for a lost stream.
	Grace time.Duration
}

// streamWithin is how long the stream of a call may take to begin.
const streamWithin = 30 * time.Second

// ringing is a call without a stream yet, as its token has it. Of a call out, Caller is the number that was
// dialled, Called the line's, and Out our id.
type ringing struct{ Call, Caller, Called, Out string }

// phoneLines are the calls by telephone of this process, by the ids of their tokens.
type phoneLines struct {
	mu   sync.Mutex
	open map[string]*phoneCall
}

// phoneCall is a call, or the place of one that rings. It does not change.
type phoneCall struct {
	line, caller string
	until        time.Time     // its place is kept without a stream
	stream       *phone.Stream // nil while it rings
	gone         func()
}

// enter takes a place for a call, unless all are taken. ofLine and ofCaller are calls of other processes.
func (l *phoneLines) enter(id string, line *phone.Line, call ringing, ofLine, ofCaller int, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, o := range l.open {
		switch {
		case o.stream == nil && now.After(o.until):
			delete(l.open, other)
		case other != id && o.line == line.Name:
			ofLine++
			if o.caller == call.Caller {
				ofCaller++
			}
		}
	}
	if ofLine >= line.MaxCalls || call.Caller != "" && ofCaller >= line.MaxCallsPerCaller {
		return false
	}
	if l.open == nil {
		l.open = map[string]*phoneCall{}
	}
	if l.open[id] == nil {
		l.open[id] = &phoneCall{line: line.Name, caller: call.Caller, until: now.Add(streamWithin)}
	}
	return true
}

// find returns a call, nil if there is none.
func (l *phoneLines) find(id string) *phoneCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[id]
}

// join takes a call with its stream, perhaps one that rang in another process.
func (l *phoneLines) join(id string, call *phoneCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[string]*phoneCall{}
	}
	l.open[id] = call
}

func (l *phoneLines) leave(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, id)
}

// count returns how many calls of a line are here.
func (l *phoneLines) count(line string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.open {
		if o.line == line {
			n++
		}
	}
	return n
}
