package persistence

import (
	"encoding/json"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/thread"
)

// Thread is a saved conversation.
type Thread struct {
	ID        string    `json:"id" openapi:"$ref: '#/components/schemas/ID'"`
	Owner     string    `json:"-"`
	Title     string    `json:"title"`
	TitleBy   TitleBy   `json:"-"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// AssistantID is the assistant that answers; missing for the server's settings.
	AssistantID string `json:"assistant_id,omitempty"`
	// AssistantOwner has the assistant, as long as it exists and the thread's owner may use it; empty: the operator.
	AssistantOwner string `json:"-"`
	// Variables are values of its variables.
	Variables map[string]string `json:"variables,omitempty"`
	// ResetSeq is set by a reset: messages whose seq is below it are no longer read by models.
	ResetSeq int64 `json:"reset_seq,omitempty"`
}

// TitleBy says who gave a thread its title.
type TitleBy string

// The sources of titles, each better than the one before, which it replaces.
const (
	TitleByNobody TitleBy = ""
	TitleByWords  TitleBy = "local" // the first words of the thread
	TitleByModel  TitleBy = "model"
	TitleByUser   TitleBy = "user"
)

// TurnRecord is a running text turn.
type TurnRecord struct {
	ID        string
	Instance  string
	StartedAt time.Time
	StopAsked bool // StopTurn was called
}

// TextSession says how a thread's text turns are answered, where that differs from the settings.
// Tools and Defaults are JSON as sent by the client; empty for none.
type TextSession struct {
	Provider  string
	Model     string
	Tools     string
	Defaults  string
	CreatedAt time.Time
}

// SearchHit is a message of another thread that contains words of a search.
type SearchHit struct {
	ThreadID  string
	Title     string // of the thread
	Role      thread.Role
	Text      string
	CreatedAt time.Time
	Hits      int // how many of the words it contains
}

// EventType is the kind of an Event.
type EventType string

// The kinds of events that this package itself creates; others publish more.
const (
	EventMessage EventType = "message"
	// EventMessageDelta adds to the text of a message in progress; its data is a Delta. For each
	// watcher it continues exactly what that watcher already has.
	EventMessageDelta EventType = "message_delta"
	// EventApprovalRequired asks the user whether a tool may run.
	EventApprovalRequired EventType = "bridge.tool.approval_required"
	// EventApprovalAnswered tells who has asked that a question of the thread has its answer in the database.
	EventApprovalAnswered EventType = "approval_answered"
	// EventTurnFinished and EventCallEnded are published by the process that has the turn or the
	// call or, if it died, by the one that closes what it left open.
	EventTurnFinished EventType = "turn_finished"
	EventCallEnded    EventType = "call_ended"
	EventCallStarted  EventType = "call_started"
)

// The kinds of events that an owner's watchers get, besides those of calls and turns.
const (
	EventThreadCreated EventType = "thread_created"
	EventThreadUpdated EventType = "thread_updated"
	EventThreadDeleted EventType = "thread_deleted"
)

// Event is something that happened on a thread, as its watchers see it.
type Event struct {
	Type EventType `json:"type"`
	// Data is the event's JSON object.
	Data json.RawMessage `json:"data"`
	// Seq is the number of the change, for events that are replayed from the table (messages); zero
	// for those that only current watchers get.
	Seq int64 `json:"seq,omitempty"`
	// Delta is the Data of an EventMessageDelta, with Start and Part. It is nil for every other
	// event.
	Delta *Delta `json:"-"`
}

// ThreadFilter selects threads of an owner, latest activity first.
type ThreadFilter struct {
	Limit  int    // 1 to 200; zero means 50
	Cursor string // from the previous page; empty for the first
	Query  string // words to find in titles and messages; empty for all
}

// Delta is the data of EventMessageDelta as published: what was added to a message in progress. In
// the Data that watchers get, Start is missing.
type Delta struct {
	ID string `json:"id"` // of the message
	// Start is how many bytes the message's text, Message.Text, had before.
	Start *int   `json:"start,omitempty"`
	Text  string `json:"text"`
}

var (
	// ErrNotFound means that the thread, message or call does not exist or belongs to another
	// owner: callers cannot tell the two apart.
	ErrNotFound = database.ErrNotFound
	// ErrConflict means that a unique rule was broken: an id is taken, or a thread already has a
	// live call.
	ErrConflict = database.ErrConflict
	// ErrInvalid means that the input cannot be stored; Reason says why.
	ErrInvalid = database.ErrInvalid
	// ErrServed means that another process serves the SQLite file.
	ErrServed = database.ErrServed
	// ErrUnavailable means that the database is unreachable or takes no writes now; the operation
	// may be retried.
	ErrUnavailable = database.ErrUnavailable
	// ErrFenced means that other processes took this one for dead and closed what it had open. It
	// may not write until Cluster.Rejoin.
	ErrFenced = database.ErrFenced
	// ErrClosed means that the store was closed.
	ErrClosed = database.ErrClosed
	// ErrGone means that a command's recipient is dead. Recover closes what it had open.
	ErrGone = database.ErrGone
	// ErrQuota means that the owner has as much as is allowed.
	ErrQuota = database.ErrQuota
	// ErrBusy means that a turn is running on the thread, or a message is being sent.
	ErrBusy = database.ErrBusy
)

// Invalid returns an ErrInvalid with a reason for clients, "title: …", formatted as by fmt.Sprintf.
func Invalid(format string, args ...any) error { return database.Invalid(format, args...) }

// Reason returns what to tell clients about an ErrInvalid: "invalid title: …", without what was being
// done and without the words of the database.
func Reason(err error) string { return database.Reason(err) }

// The limits of what can be stored; exceeding one is ErrInvalid.
const (
	// MaxTitleBytes is the size of a thread's title, in bytes.
	MaxTitleBytes = 2000

	maxMetadataBytes = 256 << 10
)

func checkKey(k thread.Key) error { return database.CheckKey(k) }
