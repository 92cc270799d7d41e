package session

import "voicebridge/persistence"

// held is what waits for a session that is ready: events of the browser, and texts
// from elsewhere.
type held struct {
	events [][]byte
	bytes  int
	texts  []ServerText
	// written are messages of the thread that the session is to be told.
	written []persistence.Message
}

// add keeps an event, if there is room for it.
func (h *held) add(data []byte) bool {
	if len(h.events) >= maxHeldEvents || h.bytes+len(data) > maxHeldBytes {
		return false
	}
	h.events = append(h.events, data)
	h.bytes += len(data)
	return true
}

// take gives out what waits.
func (h *held) take() (events [][]byte, texts []ServerText) {
	events, texts = h.events, h.texts
	*h = held{}
	return events, texts
}
