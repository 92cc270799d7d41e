package mcptool

import (
	"context"
	"log/slog"
	"time"

	"voicebridge/toolkit"
	"voicebridge/toolkit/mcptool/signin"
)

// Options of [Open]. The zero value is useful.
type Options struct {
	// Logger logs connections, their ends, and what child processes write to stderr; nil = none.
	Logger *slog.Logger
	// Version is sent to the servers as the version of voicebridge.
	Version string
	// Pins stores the definitions of tools that have been seen, across restarts; nil keeps them in
	// memory.
	Pins pins
	// Media saves the images and sounds of results; nil leaves their data in the results, where models
	// do not see it.
	Media media
	// SignIn lets owners sign in to servers that want that; without it such servers are refused.
	SignIn signIn
	// Folder is where processes of which each owner has one work, each in a folder of its own; empty = data/mcp.
	Folder string
	// ConnectTimeout limits one attempt to connect and list the tools; 0 = 20 s.
	ConnectTimeout time.Duration
	// CallTimeout limits a call of a tool whose server has no limit of its own; 0 = 30 s. So long a turn also waits for
	// an owner's server whose tools nobody has seen yet.
	CallTimeout time.Duration
	// MinBackoff and MaxBackoff are the first and the longest pause before a server is retried; 0 =
	// 500 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// Changed is called when [Servers.Tools] has changed: a server has listed its tools, for the first
	// time or again. It must return at once; nil = none.
	Changed func()
}

// Status is the state of one server.
type Status struct {
	Name      string
	Connected bool
	// Tools is how many tools it offers.
	Tools int
	// Held are the tools that are new, or have changed, since the server was first seen.
	Held []Held
	// Error says why it is not connected; it contains no secrets of the configuration.
	Error string
}

// The states of a server, as its owner sees it.
const (
	StateConnected  = "connected"
	StateConnecting = "connecting"
	StateIdle       = "idle"    // it is started when it is needed
	StateSignIn     = "sign_in" // the owner has to sign in first
	StateFailed     = "failed"
)

// OwnerStatus is the state of a server, as one owner sees it.
type OwnerStatus struct {
	Name, Type string
	// PerOwner means that each owner has a process, SignIn that each signs in.
	PerOwner, SignIn bool
	State            string
	// Reason says why it has failed, without secrets of the configuration.
	Reason string
	Tools  int
	Held   []Held
}

// Held is a tool that is not offered in its current form.
type Held struct {
	// Tool is its current definition, with the name under which it is, or would be, offered.
	Tool toolkit.Definition
	// Why says why it is held, and what the operator can do, in sentences.
	Why string
}

// maxTools limits the tools of one server.
const maxTools = 128

// moment is how long another goroutine may take to notice the end of a connection.
const moment = 200 * time.Millisecond

// pins stores the definitions of servers' tools as first seen, or last accepted.
type pins interface {
	// ToolPins returns those of a server, by the server's names of the tools.
	ToolPins(ctx context.Context, server string) (map[string]string, error)
	// PinTools sets some of them; an empty one is removed.
	PinTools(ctx context.Context, server string, definitions map[string]string) error
}

// media saves images and sounds of results with the thread of their call.
type media interface {
	SaveMedia(ctx context.Context, call toolkit.Call, data []byte) (toolkit.Media, error)
}

// signIn lets owners sign in; *signin.Desk implements it.
type signIn interface {
	SignedIn(ctx context.Context, owner string, s signin.Server) (bool, error)
	Token(ctx context.Context, owner string, s signin.Server, refused string) (string, error)
	Widen(ctx context.Context, owner string, s signin.Server, scopes []string) error
	Forget(ctx context.Context, owner string, s signin.Server) (bool, error)
}
