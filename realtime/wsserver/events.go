package wsserver

import (
	"unicode/utf8"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// take takes one event of the client.
func (c *Conn) take(data []byte) {
	if c.silent {
		c.handOn(data)
		return
	}
	ev, err := realtime.Decode(data)
	if err != nil || ev.Malformed != nil {
		c.handOn(data) // the call says what is wrong
		return
	}
	switch ev.Type {
	case realtime.TypeInputAppend:
		if e := c.input.append(data); e != nil {
			c.refuse(ev.EventID, e)
		}
		return
	case realtime.TypeSessionUpdate:
		c.formats(&ev)
	case realtime.TypeInputClear:
		c.input.clear()
		c.release()
	}
	if !c.inOrder(data, ev.Type == realtime.TypeInputCommit) {
		c.refuse(ev.EventID, &realtime.Error{
			Code: "too_many_events", Message: "Too many events wait for the sound before them.",
		})
	}
}

// inOrder hands an event on, perhaps later. It returns false if too much waits.
func (c *Conn) inOrder(data []byte, commits bool) bool {
	c.order.Lock()
	defer c.order.Unlock()
	waits, ok := c.input.hold(data, commits)
	if ok && !waits {
		c.handOn(data)
	}
	return ok
}

func (c *Conn) handOn(data []byte) {
	if c.h.Message != nil {
		c.h.Message(data)
	}
}

// release hands on the events that have no more sound before them.
func (c *Conn) release() {
	c.order.Lock()
	defer c.order.Unlock()
	for _, data := range c.input.released() {
		c.handOn(data)
	}
}

// refuse answers an event. A client that reads nothing is not read either.
func (c *Conn) refuse(eventID string, e *realtime.Error) {
	if e.Type = "invalid_request_error"; utf8.RuneCountInString(eventID) <= realtime.MaxEventID {
		e.EventID = eventID
	}
	answer := realtime.ErrorEvent(newID("event_"), *e)
	for !c.out.hasRoom(len(answer)) {
		select {
		case <-c.out.room:
		case <-c.done:
			return
		}
	}
	c.out.event(answer)
}

// formats takes what a session says about formats, of both sides or of neither.
func (c *Conn) formats(ev *realtime.Event) {
	var asked [2]media.Format // zero for a side that goes on as it is
	for i, side := range sides {
		var ok bool
		if asked[i], ok = formatOf(ev.Session, side, media.Format{}); !ok {
			c.refuse(ev.EventID, &realtime.Error{
				Code: "invalid_value", Param: "session." + side,
				Message: "Formats are audio/pcm at 24000 Hz, audio/pcmu and audio/pcma. Both sides stay as they are.",
			})
			return
		}
	}
	c.input.use(asked[0])
	c.output.use(asked[1])
}
