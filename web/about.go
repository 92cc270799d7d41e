package web

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"go.yaml.in/yaml/v3"

	"voicebridge/assistant"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/web/problem"
)

// server serves the routes about this server: whether it is well, what it can, and the description of the API.
type server struct{ *api }

func (h server) routes(r router) {
	r.explain = orThread
	route(r, "GET /api/config", h.config)
	route(r, "GET /api/models", h.models)
	route(r, "GET /api/tools", h.tools)
	route(r, "GET /api/usage", h.usage)
	r.GET("/healthz", h.healthz)
	r.GET("/readyz", h.readyz)
	r.GET("/metrics", echo.WrapHandler(h.Metrics.Handler()), r.user)
	r.GET("/openapi.json", h.description)
}

type configAnswer struct {
	Upstream     string `json:"upstream"`
	UpstreamNote string `json:"upstream_note"`
	Version      string `json:"version"`
	Model        string `json:"model"`
	Voice        string `json:"voice"`
	// Cascade means that an upstream is one: GET /api/models says what it consists of.
	Cascade bool `json:"cascade,omitempty"`
	// TurnDetection is what a call that was push to talk for a while can go back to.
	TurnDetection json.RawMessage `json:"turn_detection"`
	// Authentication reports whether clients must sign in, Owner who this one is.
	Authentication bool   `json:"authentication"`
	Owner          string `json:"owner"`
	// Recording reports whether calls may be recorded.
	Recording bool `json:"recording"`
	// ICEServers are for the browser's RTCPeerConnection.
	ICEServers []shownICEServer `json:"ice_servers"`
}

// shownICEServer is an ICEServer in the form of the browser's RTCIceServer. Browsers need the
// credential, so clients get it.
type shownICEServer struct {
	URLs       []string `json:"urls"`
	Username   string   `json:"username,omitempty"`
	Credential string   `json:"credential,omitempty"`
}

// config is from where the page learns about this server.
func (h server) config(_ context.Context, who caller, _ none) (configAnswer, error) {
	u := h.Upstream
	answer := configAnswer{
		Upstream: u.Name, UpstreamNote: u.Note, Version: h.Version, Model: u.Model, Voice: u.Voice, Cascade: u.Cascade,
		TurnDetection: u.TurnDetection, Authentication: h.Auth.Required(), Owner: who.Owner,
		Recording: h.Recordings != nil, ICEServers: []shownICEServer{},
	}
	servers := h.ICEServers
	if h.TURN != nil {
		servers = slices.Concat(servers, h.TURN(who.Owner))
	}
	for _, i := range servers {
		answer.ICEServers = append(answer.ICEServers, shownICEServer{i.URLs, i.Username, i.Credential.Reveal()})
	}
	return answer, nil
}

type modelList struct {
	Models []Model `json:"models"`
}

// models returns the models: those for calls, then those for typed messages.
func (h server) models(ctx context.Context, _ caller, _ none) (modelList, error) {
	return modelList{append([]Model{}, h.Models(ctx)...)}, nil
}

type toolAnswer struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Parameters is a JSON Schema.
	Parameters json.RawMessage  `json:"parameters"`
	Executor   toolkit.Executor `json:"executor" openapi:"x-enum-varnames: [ExecutorClient, ExecutorApp, ExecutorMCP]"`
	// Server is the MCP server.
	Server string `json:"server,omitempty"`
	// State is "held" for a tool that is new or has changed since its server was first seen, otherwise missing.
	State string `json:"state,omitempty" openapi:"enum: [held]"`
	// Offered says of a held tool whether calls have its old definition, with approval for each use, or do not have it.
	Offered *bool `json:"offered,omitempty"`
	// Why says why it is held.
	Why string `json:"why,omitempty"`
}

type toolList struct {
	Servers []ToolServer `json:"servers,omitzero"`
	Tools   []toolAnswer `json:"tools"`
}

type threadTools struct {
	Thread string `query:"thread_id"`
}

// tools returns the tools of a new call of this owner, on a new thread or the one that the query names, and those
// that are held.
func (h server) tools(ctx context.Context, who caller, in threadTools) (answer toolList, err error) {
	answer.Tools = []toolAnswer{}
	if h.Tools != nil {
		var a assistant.Assistant
		if in.Thread != "" {
			if a, err = h.Store.Assistants.Of(ctx, thread.Key{Owner: who.Owner, Thread: in.Thread}); err != nil {
				return answer, err
			}
		}
		registry, err := h.Tools(ctx, who.Owner, a)
		if err != nil {
			return answer, err
		}
		for _, e := range registry.Entries() {
			d := e.Tool.Definition()
			answer.Tools = append(answer.Tools, toolAnswer{
				Name: d.Name, Description: d.Description, Parameters: d.Parameters, Executor: e.Executor,
				Server: e.Server,
			})
		}
	}
	answer.Servers = h.ToolServers.Of(ctx, who.Owner)
	for _, s := range answer.Servers {
		answer.Tools = withHeld(answer.Tools, s)
	}
	return answer, nil
}

// withHeld marks a server's tools that are held, and adds those that are not offered.
func withHeld(all []toolAnswer, s ToolServer) []toolAnswer {
	for _, held := range s.Held {
		d := held.Tool
		i := slices.IndexFunc(all, func(t toolAnswer) bool { return t.Name == d.Name && t.Server == s.Name })
		offered := i >= 0
		if !offered {
			i = len(all)
			all = append(all, toolAnswer{
				Name: d.Name, Description: d.Description, Parameters: d.Parameters, Executor: toolkit.ExecutorMCP,
				Server: s.Name,
			})
		}
		all[i].State, all[i].Offered = "held", &offered
		all[i].Why = held.Why
	}
	return all
}

const readyTimeout = 3 * time.Second

// healthz answers as long as the process does.
func (server) healthz(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}

// readyz reports whether new work should be sent here.
func (h server) readyz(c echo.Context) error {
	if h.closing.Load() {
		return problem.ErrShuttingDown
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), readyTimeout)
	defer cancel()
	err := h.Store.Healthy(ctx)
	if errors.Is(err, persistence.ErrFenced) {
		return storageUnavailable("Other processes took this one for dead; it is restarting.")
	}
	if err != nil {
		h.Logger.Error("database does not answer or accepts no changes", "error", err)
		return storageUnavailable("The database does not answer or accepts no changes.")
	}
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}

// What the description says of routes is written by hand, and the schemas of answers are made from their types; tests
// keep both in step.
//
//go:embed openapi.yaml
var openAPISource []byte

// openAPIDocument returns the description as JSON, which is made when somebody asks for it.
var openAPIDocument = sync.OnceValues(func() ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(openAPISource, &doc); err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode openapi.yaml: %w", err)
	}
	return out, nil
})

// description serves the API description.
func (server) description(c echo.Context) error {
	doc, err := openAPIDocument()
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-cache")
	return c.JSONBlob(http.StatusOK, doc)
}
