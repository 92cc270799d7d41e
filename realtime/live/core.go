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

// sentKind is what a command is for.
type sentKind int

const (
	sentOther sentKind = iota
	sentOutput
	sentText
	sentCreate
	sentAppend
	sentShort
)

// command is what is remembered of a command, for its error.
type command struct {
	kind   sentKind
	client string // the event_id of the client's event that has caused it
	call   *call
	bytes  int // as the backend counts them
	create int
	text   string
}

// call is a function that the backend, or a delegation to the client, has called.
type call struct {
	id, name string
	batch    *batch
	since    time.Time
	// started means that the backend has got an answer, but not the result.
	started  bool
	answered bool
	refused  bool // an answer was, and a short one was sent
}

// batch is one response of the backend.
type batch struct {
	id       string
	calls    []*call
	items    []tree
	done     bool
	replied  bool // its calls were answered, and the backend was asked to go on
	touched  time.Time
	delegate string
}

// core is what the parts of a session share.
type core struct {
	now      time.Time
	sound    *sound
	out      [][]byte // events for the client
	commands [][]byte
	sent     map[string]command
	order    []string
	counter  int
}

// emit tells the client of something.
func (c *core) emit(e tree) {
	e["event_id"] = newID("event_")
	c.out = append(c.out, realtime.Encode(e))
}

// command tells the session something.
func (c *core) command(what command, e tree) {
	c.counter++
	id := fmt.Sprintf("%s%d", ownPrefix, c.counter)
	e["event_id"] = id
	c.sent[id] = what
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
