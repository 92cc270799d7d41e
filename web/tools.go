package web

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"voicebridge/assistant"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// tools serves the route about the tools of a call.
type tools struct {
	// of returns the server's tools for a new call; nil means none.
	of func(ctx context.Context, owner string, a assistant.Assistant) (*toolkit.Registry, error)
	// assistants are those of threads.
	assistants interface {
		Of(ctx context.Context, key thread.Key) (assistant.Assistant, error)
	}
	// servers are the MCP servers; nil means none.
	servers ToolServers
}

// ToolServers are the MCP servers, as their owners see them.
type ToolServers interface {
	// Of returns the state of the servers as the owner sees them.
	Of(ctx context.Context, owner string) []ToolServer
	// Connect begins the owner's sign-in to a server, who comes back to the address redirect. authorizeURL is where the browser goes, and
	// browser what it keeps until then. The error is ErrNoSignIn, that of SignInFailed, or another one that is ours.
	Connect(ctx context.Context, owner, server, redirect string) (authorizeURL, browser string, err error)
	// Finish ends a sign-in, if mine says so of its owner or if the browser has kept what it was given. kept returns what that is for a
	// server. It returns the server as soon as that is known, and errors as Connect does.
	Finish(ctx context.Context, back SignInReturn, kept func(server string) string, mine func(owner string) bool) (server string, err error)
	// Forget ends what the owner has of a server, and reports whether there was anything.
	Forget(ctx context.Context, owner, server string) (had bool, err error)
}

// SignInReturn is what a browser comes back with from a sign-in.
type SignInReturn struct{ State, Code, Issuer, Error, Description string }

// ToolServer is an MCP server and its current state, as one owner sees it.
type ToolServer struct {
	Name      string `json:"name"`
	Connected bool   `json:"connected"`
	Tools     int    `json:"tools"` // how many it offers
	// Type is stdio, http or sse.
	Type string `json:"-"`
	// PerOwner means that each owner has a process of it, SignIn that each owner signs in to it.
	PerOwner, SignIn bool `json:"-"`
	// State is connected, connecting, idle, sign_in or failed.
	State string `json:"-"`
	// Reason says why it has failed.
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

func (h *tools) routes(r router) { r.GET("/api/tools", h.list, r.user) }

type toolAnswer struct {
	Name        string           `json:"name"`
	Description string           `json:"description"`
	Parameters  json.RawMessage  `json:"parameters"`
	Executor    toolkit.Executor `json:"executor"`
	Server      string           `json:"server,omitempty"`
	// State is held for a tool that is new or has changed, otherwise empty. Offered means that calls
	// still have it.
	State   string `json:"state,omitempty"`
	Offered *bool  `json:"offered,omitempty"`
	Why     string `json:"why,omitempty"`
}

// list returns the tools of a new call of this owner, on a new thread or the one that the query names, and those that are held.
func (h *tools) list(c echo.Context) error {
	all := []toolAnswer{}
	if h.of != nil {
		var a assistant.Assistant
		ctx, owner := c.Request().Context(), identity(c).Owner
		if id := c.QueryParam("thread_id"); id != "" {
			var err error
			if a, err = h.assistants.Of(ctx, thread.Key{Owner: owner, Thread: id}); err != nil {
				return orThread(err)
			}
		}
		registry, err := h.of(ctx, owner, a)
		if err != nil {
			return err
		}
		for _, e := range registry.Entries() {
			d := e.Tool.Definition()
			all = append(all, toolAnswer{Name: d.Name, Description: d.Description, Parameters: d.Parameters, Executor: e.Executor, Server: e.Server})
		}
	}
	answer := map[string]any{}
	if h.servers != nil {
		servers := h.servers.Of(c.Request().Context(), identity(c).Owner)
		for _, s := range servers {
			all = withHeld(all, s)
		}
		answer["servers"] = servers
	}
	answer["tools"] = all
	return c.JSON(http.StatusOK, answer)
}

// withHeld marks a server's tools that are held, and adds those that are not offered.
func withHeld(all []toolAnswer, s ToolServer) []toolAnswer {
	for _, held := range s.Held {
		d := held.Tool
		i := slices.IndexFunc(all, func(t toolAnswer) bool { return t.Name == d.Name && t.Server == s.Name })
		offered := i >= 0
		if !offered {
			i = len(all)
			all = append(all, toolAnswer{Name: d.Name, Description: d.Description, Parameters: d.Parameters, Executor: toolkit.ExecutorMCP, Server: s.Name})
		}
		all[i].State, all[i].Offered, all[i].Why = "held", &offered, held.Why
	}
	return all
}
