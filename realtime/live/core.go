package live

import (
	"context"
	"fmt"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

const (
	// maxSent is how many commands are remembered, for their errors.
	maxSent = 1024
	// ownPrefix begins the ids of commands.
	ownPrefix = "vb_l"
)

// Peer is the connection that carries a session.
type Peer interface {
	media.Sink
	Send(ctx context.Context, data []byte) error
	Forward(ctx context.Context, dst media.Sink, flow *media.Flow) error
	Accept(ctx context.Context, answer string) error
	Close() error
}

// core is what the parts of a session share.
type core struct {
	now      time.Time
	sound    *sound
	out      [][]byte // events for the client
	commands [][]byte
	sent     map[string]string // what a session was told by each command, for its error
	order    []string
	counter  int
}

// emit tells the client of something.
func (c *core) emit(e tree) {
	e["event_id"] = newID("event_")
	c.out = append(c.out, realtime.Encode(e))
}

// command sends a command. text is what the session is told by it, empty if that is not to be told otherwise.
func (c *core) command(text string, e tree) {
	c.counter++
	id := fmt.Sprintf("%s%d", ownPrefix, c.counter)
	e["event_id"] = id
	c.sent[id] = text
	if c.order = append(c.order, id); len(c.order) > maxSent {
		delete(c.sent, c.order[0])
		c.order = c.order[1:]
	}
	c.commands = append(c.commands, realtime.Encode(e))
}

// refuse answers an event of the client.
func (c *core) refuse(eventID string, e realtime.Error) {
	e.EventID = eventID
	c.out = append(c.out, realtime.ErrorEvent(newID("event_"), e))
}

// Usage is how long a session is billed.
type Usage struct {
	Length time.Duration
	// Reported means that the session has said so itself, at its end.
	Reported bool
}
