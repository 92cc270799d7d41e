package session

import (
	"strconv"
	"strings"
)

// audience is who sees an event of the upstream.
type audience int

const (
	nobody    audience = iota
	everybody          // the browser and the sidebands, each as far as it may
	sidebands          // not the browser
)

func shown(yes bool) audience {
	if yes {
		return everybody
	}
	return nobody
}

// sideband is a connection without sound beside the browser, from an application's server.
type sideband struct {
	id       int
	welcomed bool // it has its session: events may follow
}

// mark begins the event_id of a sideband's event here: no id that was read from JSON has a byte that is not UTF-8.
const mark = "\xff"

// asker returns the event_id of an event together with which sideband sent it, 0 for the browser: an answer finds its
// way.
func asker(side int, eventID string) string {
	if side == 0 {
		return eventID
	}
	return mark + strconv.Itoa(side) + mark + eventID
}

// asked returns what [asker] was given.
func asked(id string) (side int, eventID string) {
	rest, ok := strings.CutPrefix(id, mark)
	if !ok {
		return 0, id
	}
	number, eventID, _ := strings.Cut(rest, mark)
	side, _ = strconv.Atoi(number) // it was written here
	return side, eventID
}
