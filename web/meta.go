package web

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/toolkit"
)

// pinger is what the readiness check needs of the store.
type pinger interface {
	Ping(ctx context.Context) error
}

const readyTimeout = 3 * time.Second

// Upstream describes what calls talk to, for the page and for clients.
type Upstream struct {
	// Name is the driver's name: openai, simulator.
	Name string
	// Note tells the user what he should know of it, in plain words; may be empty.
	Note  string
	Model string
	Voice string
}

type configAnswer struct {
	Upstream     string `json:"upstream"`
	UpstreamNote string `json:"upstream_note"`
	Version      string `json:"version"`
	Model        string `json:"model"`
	Voice        string `json:"voice"`
	// Authentication says whether callers must sign in; Owner who this one is.
	Authentication bool   `json:"authentication"`
	Owner          string `json:"owner"`
	// ICEServers are for the browser's RTCPeerConnection.
	ICEServers []shownICEServer `json:"ice_servers"`
	// ClientTools are the tools that the page is to run itself.
	ClientTools []string  `json:"client_tools"`
	Code        codeShown `json:"code"`
}

// CodeLimits are the limits of a program that the page runs for a model. Zero
// values leave them to the page.
type CodeLimits struct {
	Timeout     time.Duration
	MemoryBytes int64
}

type codeShown struct {
	TimeoutMs   int64 `json:"timeout_ms"`
	MemoryBytes int64 `json:"memory_bytes"`
	// Pyodide is what the names of Pyodide's files are appended to.
	Pyodide string `json:"pyodide"`
}

// ICEServer is a STUN or TURN server for the browser's leg.
type ICEServer struct {
	URLs       []string
	Username   string
	Credential Secret
}

// shownICEServer is an ICEServer in the form of the browser's RTCIceServer.
// Browsers need the credential, so callers are told it.
type shownICEServer struct {
	URLs       []string `json:"urls"`
	Username   string   `json:"username,omitempty"`
	Credential string   `json:"credential,omitempty"`
}

func (i ICEServer) shown() shownICEServer {
	return shownICEServer{i.URLs, i.Username, i.Credential.Reveal()}
}

func (s *Server) readConfig(c echo.Context) error {
	u := s.cfg.Upstream
	answer := configAnswer{
		Upstream: u.Name, UpstreamNote: u.Note, Version: s.cfg.Version, Model: u.Model, Voice: u.Voice,
		Authentication: s.auth.required, Owner: caller(c).Owner, ICEServers: []shownICEServer{},
		ClientTools: append([]string{}, s.cfg.ClientTools...),
		Code:        codeShown{TimeoutMs: s.cfg.Code.Timeout.Milliseconds(), MemoryBytes: s.cfg.Code.MemoryBytes, Pyodide: s.cfg.Pyodide.base()},
	}
	for _, i := range s.cfg.ICEServers {
		answer.ICEServers = append(answer.ICEServers, i.shown())
	}
	return c.JSON(http.StatusOK, answer)
}

type toolAnswer struct {
	Name        string           `json:"name"`
	Description string           `json:"description"`
	Parameters  json.RawMessage  `json:"parameters"`
	Executor    toolkit.Executor `json:"executor"`
	Server      string           `json:"server,omitempty"`
}

// listTools tells the tools that a new call of the caller has.
func (s *Server) listTools(c echo.Context) error {
	tools := []toolAnswer{}
	if s.cfg.Tools != nil {
		registry, err := s.cfg.Tools(c.Request().Context(), caller(c).Owner, "")
		if err != nil {
			return err
		}
		for _, e := range registry.Entries() {
			d := e.Tool.Definition()
			tools = append(tools, toolAnswer{d.Name, d.Description, d.Parameters, e.Executor, e.Server})
		}
	}
	return c.JSON(http.StatusOK, map[string]any{"tools": tools})
}

// healthz says that the process answers.
func (s *Server) healthz(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}

// readyz says whether new work should be sent here.
func (s *Server) readyz(c echo.Context) error {
	if s.closing.Load() {
		return errShuttingDown
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), readyTimeout)
	defer cancel()
	if err := s.store.Ping(ctx); err != nil {
		s.log.Error("database does not answer", "error", err)
		return &apiError{Status: http.StatusServiceUnavailable, Code: "database_unavailable", Message: "The database does not answer.", RetryAfter: 5 * time.Second}
	}
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}
