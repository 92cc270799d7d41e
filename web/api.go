package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"voicebridge/assistant"
	"voicebridge/bridge"
	"voicebridge/chat"
	"voicebridge/chat/queue"
	"voicebridge/persistence"
	"voicebridge/persistence/privacy"
	"voicebridge/realtime"
	"voicebridge/realtime/wsserver"
	"voicebridge/recording"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/web/access"
	"voicebridge/web/conductor"
	"voicebridge/web/input"
	"voicebridge/web/uistream"
)

// Config configures a [Server]. Calls, Chat, Queue, Store, Privacy, CheckHook and Page are required.
type Config struct {
	Calls voiceCalls
	Chat  textChat
	// AssistantNames are what assistants may name.
	AssistantNames AssistantNames
	// Queue holds waiting messages.
	Queue *queue.Queue
	Store *persistence.Store
	// Privacy are the kinds of data that an owner's export has, and their erasure deletes.
	Privacy []privacy.Part
	// EraseHere erases what this process has of an owner outside of the database; nil means that it has nothing such.
	EraseHere func(ctx context.Context, owner string) error
	// CheckHook returns the URL of a hook as it is saved, or why it may not be called.
	CheckHook func(url string) (string, error)
	// Recordings has the sound of calls; nil means that calls are not recorded.
	Recordings *recording.Archive
	// Page holds the built page with index.html at its root.
	Page fs.FS
	// Tools returns the server's tools for a new call with an assistant; nil means none.
	Tools func(ctx context.Context, owner string, a assistant.Assistant) (*toolkit.Registry, error)
	// Phone has the lines that are answered.
	Phone Phone
	// ToolServers are the MCP servers.
	ToolServers ToolServers
	Upstream    Upstream
	// Models returns those for calls, one of each upstream, then those that answer typed messages.
	Models  func(context.Context) []Model
	Version string
	Auth    access.Auth
	// ICEServers are sent to browsers by GET /api/config, together with those of TURN, which makes
	// passwords for an owner; TURN may be nil.
	ICEServers []ICEServer
	TURN       func(owner string) []ICEServer
	// AllowedOrigins are other origins whose pages may use the API: scheme://host[:port].
	AllowedOrigins []string
	// Loopback means that the server listens on loopback: then only loopback names and the hosts of
	// allowed origins are served.
	Loopback bool
	// TrustedProxies are the addresses, besides loopback, whose X-Forwarded-For and X-Forwarded-Prefix are trusted.
	TrustedProxies []netip.Prefix
	Limits         access.Limits
	// ShutdownTimeout limits how long [Server.Run] waits for requests and sockets after its context
	// has ended; zero means 10 s.
	ShutdownTimeout time.Duration
	Metrics         *Metrics // nil makes new ones
	// Trace returns a context with the span that the headers of a request name as its parent; nil
	// reads none.
	Trace func(ctx context.Context, header http.Header) context.Context
	// StopWithReader makes a turn that useChat has begun end when its client goes away.
	StopWithReader bool
	Logger         *slog.Logger
}

func (c Config) validate() error {
	var problems []error
	for _, part := range []struct {
		name    string
		missing bool
	}{
		{"Calls", c.Calls == nil}, {"Chat", c.Chat == nil}, {"Queue", c.Queue == nil}, {"Store", c.Store == nil},
		{"ToolServers", c.ToolServers == nil},
		{"Privacy", len(c.Privacy) == 0}, {"CheckHook", c.CheckHook == nil}, {"Page", c.Page == nil},
	} {
		if part.missing {
			problems = append(problems, fmt.Errorf("web: %s is missing", part.name))
		}
	}
	if !c.Loopback && !c.Auth.Required() {
		problems = append(problems, errors.New("web: authentication is required off loopback"))
	}
	return errors.Join(problems...)
}

// Upstream describes the upstream to the page and to clients.
type Upstream struct {
	// Name is the driver's name: openai, simulator.
	Name string
	// Note is what users should know about the upstream; may be empty.
	Note  string
	Model string
	Voice string
	// Cascade means that one of the upstreams is a cascade.
	Cascade bool
	// TurnDetection is the object of the Realtime API that calls begin with, in JSON, or null for push to talk.
	TurnDetection json.RawMessage
}

// ICEServer is a STUN or TURN server for the browser's leg.
type ICEServer struct {
	URLs     []string `yaml:"urls"`
	Username string   `yaml:"username"`
	// Credential is a secret, and not in a file of settings.
	Credential access.Secret `yaml:"-"`
}

// The kinds of a [Model].
const (
	ModelText     = "text"     // answers typed messages
	ModelRealtime = "realtime" // answers calls
)

// Model is a configured model.
type Model struct {
	// Provider is the name by which a text session chooses it, or the name of the upstream of calls.
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Kind     string `json:"kind" openapi:"enum: [text, realtime]"`
	// Default says whether it is the default of its kind.
	Default bool `json:"default"`
	// Voice is the voice of a realtime model.
	Voice string `json:"voice,omitempty"`
	// Voices are those that it may have besides, as far as its server lists them.
	Voices []string `json:"voices,omitempty"`
	// TranscriptionModel writes down what the caller of a realtime model says.
	TranscriptionModel string `json:"transcription_model,omitempty"`
	// Cascade means that Model is one for text, between one that listens and one that speaks.
	Cascade bool `json:"cascade,omitempty"`
	// AssistantText means that an assistant's model for text takes its place.
	AssistantText bool `json:"assistant_text,omitempty"`
}

// AssistantNames are the names that assistants may use. Nil lists allow all.
type AssistantNames struct{ Upstreams, Providers, MCPServers []string }

// voiceCalls are the live calls; *bridge.Calls implements it.
type voiceCalls interface {
	callSetUp
	Hangup(ctx context.Context, owner, callID string) error
	End(ctx context.Context, owner, callID string, reason bridge.EndReason) error
	Say(ctx context.Context, key thread.Key, m thread.Message, queued string) (thread.Message, error)
	GiveUp(ctx context.Context, key thread.Key, callID string, takeover bool) error
	Live(owner, threadID string) (callID string, ok bool)
	Interrupt(ctx context.Context, key thread.Key) (stopped bool, err error)
	Forget(key thread.Key)
	Count() int
	SetRecording(ctx context.Context, owner, callID string, state bridge.RecordingState) error
}

// callSetUp connects clients to calls.
type callSetUp interface {
	ReadSession(object json.RawMessage, fixed bool) (realtime.Settings, error)
	Start(ctx context.Context, s bridge.Start) (bridge.Started, error)
	Reconnect(ctx context.Context, owner, callID, offer string) (answer string, err error)
	ReconnectSocket(ctx context.Context, owner, callID string, socket *wsserver.Conn, server bool) error
	JoinSideband(
		ctx context.Context, owner, callID string, socket *wsserver.Conn, server bool,
	) (threadID string, err error)
	// Has reports whether this process has the owner's call.
	Has(owner, callID string) bool
}

// textChat answers what users type; *chat.Door implements it.
type textChat interface {
	sessionChat
	Say(ctx context.Context, req chat.TurnRequest, mode chat.Mode) (chat.Answer, error)
	Running(key thread.Key) *chat.Turn
	Find(ctx context.Context, key thread.Key, messageID string) (chat.Reply, error)
	Interrupt(ctx context.Context, key thread.Key) error
	Decide(ctx context.Context, key thread.Key, d chat.Decision) error
	Busy(ctx context.Context, key thread.Key) (bool, error)
	LiveCall(ctx context.Context, key thread.Key) (callID string, err error)
	Count() int
}

// sessionChat is what text sessions and conductors need beside turns.
type sessionChat interface {
	KeepResult(ctx context.Context, key thread.Key, r chat.ToolResult) error
	CreateSession(ctx context.Context, owner string, req chat.SessionRequest) (chat.Session, error)
	Session(ctx context.Context, key thread.Key) (chat.Session, error)
	DeleteSession(ctx context.Context, key thread.Key) error
	SessionAnswer(ctx context.Context, key thread.Key, r chat.Result) (chat.SessionResult, chat.Session, error)
	SessionToolOutput(ctx context.Context, key thread.Key, outputs []chat.ToolResult) (chat.Session, error)
}

// ToolServers are the MCP servers, as their owners see them.
type ToolServers interface {
	// Of returns the state of the servers as the owner sees them.
	Of(ctx context.Context, owner string) []ToolServer
	// Connect begins the owner's sign-in to a server, who comes back to the address redirect. authorizeURL is where
	// the browser goes, and browser what it keeps until then. The error is ErrNoSignIn, that of SignInFailed, or
	// another one that is ours.
	Connect(ctx context.Context, owner, server, redirect string) (authorizeURL, browser string, err error)
	// Finish ends a sign-in, if mine says so of its owner or if the browser has kept what it was given. kept returns
	// what that is for a server. It returns the server as soon as that is known, and errors as Connect does.
	Finish(
		ctx context.Context, back SignInReturn, kept func(server string) string, mine func(owner string) bool,
	) (server string, err error)
	// Forget ends what the owner has of a server, and reports whether there was anything.
	Forget(ctx context.Context, owner, server string) (had bool, err error)
}

// SignInReturn is what a browser comes back with from a sign-in.
type SignInReturn struct{ State, Code, Issuer, Error, Description string }

// ToolServer is an MCP server and its current state, as one owner sees it.
type ToolServer struct {
	Name      string `json:"name"`
	Connected bool   `json:"connected"`
	// Tools is how many it offers.
	Tools int `json:"tools"`
	// Type is stdio, http or sse.
	Type string `json:"-"`
	// PerOwner means that each owner has a process of it, SignIn that each owner signs in to it.
	PerOwner, SignIn bool `json:"-"`
	// State is connected, connecting, idle, sign_in or failed.
	State string `json:"-"`
	// Reason says why it is not connected.
	Reason string `json:"error,omitempty"`
	// Held are the tools that are new or have changed since the server was first seen.
	Held []HeldTool `json:"-"`
}

// HeldTool is a tool of an MCP server that is new or has changed since the server was first seen.
type HeldTool struct {
	// Tool is the server's current definition.
	Tool toolkit.Definition
	Why  string
}

// api is what the handlers have in common.
type api struct {
	Config

	limits *access.Allowances
	auth   *access.Authenticator
	passed *access.Passes
	door   *socketDoor
	// streaming has the times of streams.
	streaming uistream.Timing
	// conductors are the sessions of apps with their own voice.
	conductors *conductor.Conductors
	lines      phoneLines
	events     securityLog
	now        func() time.Time
	closing    atomic.Bool
}

// identified admits authenticated requests.
func (a *api) identified(secretsToo bool) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			by := access.PeerOf(c.Request(), c.RealIP())
			who, err := a.auth.Identify(c.Request(), by, secretsToo, c.Param("call_id"))
			if err != nil {
				if c.Request().Header.Get(echo.HeaderAuthorization) != "" {
					a.events.refused(c, "token refused", err)
				}
				return err
			}
			return a.admit(c, who, next)
		}
	}
}

// admit serves a request of somebody who is known by now.
func (a *api) admit(c echo.Context, who access.Identity, next echo.HandlerFunc) error {
	c.Set(identityKey, who)
	input.SetMemory(c, func(ctx context.Context, n int64) (release func(), err error) {
		return a.limits.Bodies.Take(ctx, who.Owner, n)
	})
	defer input.Release(c)
	a.nameInPath(c, who.Owner)
	return next(c)
}

// Apps choose the ids of some threads. Two owners may choose the same id: the thread of the first has it, that of the
// second has one which is made of it. So neither keeps the other from their own.

// ownKey returns the key that an owner's thread has if its id is another's already: with a ~, which ids that are chosen
// do not have. The server's own ids are never taken.
func ownKey(key thread.Key) thread.Key {
	if _, err := uuid.Parse(key.Thread); err == nil {
		return key
	}
	sum := sha256.Sum256([]byte(key.Owner + "\x00" + key.Thread))
	return thread.Key{Owner: key.Owner, Thread: "~" + hex.EncodeToString(sum[:16])}
}

// meant returns the key of the thread that the owner means by an id.
func (a *api) meant(ctx context.Context, key thread.Key) thread.Key {
	own := ownKey(key)
	if own == key {
		return key
	}
	if _, err := a.Store.Thread(ctx, own); err != nil { // what the error says, the handler will find
		return key
	}
	return own
}

// nameInPath replaces the id in a request's path by that of the thread that it means.
func (a *api) nameInPath(c echo.Context, owner string) {
	for i, name := range c.ParamNames() {
		if name != "id" || c.Param("id") == "" {
			continue
		}
		values := c.ParamValues()
		values[i] = a.meant(c.Request().Context(), thread.Key{Owner: owner, Thread: values[i]}).Thread
		c.SetParamValues(values...)
	}
}
