package wsserver

import (
	"strings"
	"time"
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
