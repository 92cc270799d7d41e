package wsserver

import (
	"encoding/json"

	"voicebridge/realtime"
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
		if e := c.formats(ev.Session); e != nil {
			c.refuse(ev.EventID, e)
			return
		}
	case realtime.TypeInputClear:
		c.input.clear()
		c.release()
	}
	c.order.Lock()
	defer c.order.Unlock()
	waits, ok := c.input.hold(data, ev.Type == realtime.TypeInputCommit)
	switch {
	case !ok:
		c.refuse(ev.EventID, &realtime.Error{Code: "too_many_events", Message: "Too many events wait for the sound before them."})
	case !waits:
		c.handOn(data)
	}
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

func (c *Conn) refuse(eventID string, e *realtime.Error) {
	e.Type, e.EventID = "invalid_request_error", eventID
	c.out.event(realtime.ErrorEvent(newID("event_"), *e))
}

// formats takes what a session says about formats.
func (c *Conn) formats(session json.RawMessage) *realtime.Error {
	in, okIn := formatOf(session, sides[0], c.input.current())
	out, okOut := formatOf(session, sides[1], c.output.current())
	if !okIn || !okOut {
		return &realtime.Error{Code: "invalid_value", Param: "session.audio", Message: "Formats are audio/pcm at 24000 Hz, audio/pcmu and audio/pcma."}
	}
	if !c.input.use(in) || !c.output.use(out) {
		return &realtime.Error{Code: "cannot_update_format", Param: "session.audio", Message: "The format cannot be changed once there was sound."}
	}
	return nil
}
