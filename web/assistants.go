package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"voicebridge/assistant"
	"voicebridge/persistence"
	"voicebridge/persistence/assistants"
	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/web/access"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// assistantStore keeps the assistants; *assistants.Store implements it.
type assistantStore interface {
	List(ctx context.Context, owner, cursor string, limit int) (page []assistant.Assistant, next string, err error)
	Find(ctx context.Context, owner, id string) (assistant.Assistant, error)
	Get(ctx context.Context, owner string, ref assistant.Ref) (assistant.Assistant, error)
	Of(ctx context.Context, key thread.Key) (assistant.Assistant, error)
	Create(ctx context.Context, owner string, a assistant.Assistant, asked bool) (assistant.Assistant, error)
	Change(ctx context.Context, owner, id string, change func(assistant.Assistant) (assistant.Assistant, error)) (assistant.Assistant, error)
	Delete(ctx context.Context, owner, id string) error
}

// assistantRoutes serves the routes about assistants.
type assistantRoutes struct {
	store  assistantStore
	known  AssistantNames
	limits access.Limits
	events securityLog
}

func (h *assistantRoutes) routes(r router) {
	r.GET("/api/assistants", h.list, r.user)
	r.POST("/api/assistants", h.create, r.user)
	r.GET("/api/assistants/:assistant", h.read, r.user)
	r.PATCH("/api/assistants/:assistant", h.change, r.user)
	r.DELETE("/api/assistants/:assistant", h.delete, r.user)
}

var errNoAssistant = problem.NotFound("assistant_not_found", "There is no such assistant.")

// orAssistant replaces the store's errors by those about an assistant.
func orAssistant(err error) error {
	if e, ok := errors.AsType[*assistant.Error](err); ok {
		return problem.BadRequest("invalid_value", e.Path, e.Error()+".")
	}
	switch {
	case errors.Is(err, assistants.ErrReadOnly):
		return &problem.Error{Status: http.StatusConflict, Code: "read_only", Message: "This assistant is not yours to change. Make a copy."}
	case errors.Is(err, persistence.ErrNotFound):
		return errNoAssistant
	case errors.Is(err, persistence.ErrQuota):
		return &problem.Error{Status: http.StatusConflict, Code: "too_many_assistants", Message: "You have as many assistants as you may. Delete one."}
	case errors.Is(err, persistence.ErrConflict):
		return &problem.Error{Status: http.StatusConflict, Code: "assistant_exists", Param: "id", Message: "There is an assistant with this id."}
	}
	return err
}

// maxPlace limits the cursor of a page, in bytes.
const maxPlace = 1024

// list answers with a page, without what is long in an assistant: read has it.
func (h *assistantRoutes) list(c echo.Context) error {
	limit, err := input.Int(c, "limit", 100, 1, 200)
	if err != nil {
		return err
	}
	cursor := c.QueryParam("cursor")
	if cursor != "" && !input.ValidID(cursor, maxPlace) {
		return problem.BadRequest("invalid_value", "cursor", "cursor does not come from this server.")
	}
	page, next, err := h.store.List(c.Request().Context(), identity(c).Owner, cursor, int(limit))
	if err != nil {
		return err
	}
	answer := map[string]any{"assistants": page, "next_cursor": nil}
	if next != "" {
		answer["next_cursor"] = next
	}
	return c.JSON(http.StatusOK, answer)
}

// createdAssistant is the only answer that shows the secret.
type createdAssistant struct {
	assistant.Assistant

	Secret string `json:"secret"`
}

func (h *assistantRoutes) create(c echo.Context) error {
	body, err := assistantBody(c)
	if err != nil {
		return err
	}
	a, err := assistant.Parse(body)
	if err == nil {
		err = h.check(a)
	}
	if err != nil {
		return orAssistant(err)
	}
	var given struct{ ID string }
	_ = json.Unmarshal(body, &given) // Parse has read it
	owner := identity(c).Owner
	if a, err = h.store.Create(c.Request().Context(), owner, a, given.ID != ""); err != nil {
		return orAssistant(err)
	}
	h.events.note(c, "assistant created", owner, "assistant_id", a.ID, "shared", a.Shared)
	c.Response().Header().Set(echo.HeaderLocation, "/api/assistants/"+url.PathEscape(a.ID))
	return c.JSON(http.StatusCreated, createdAssistant{a, a.Secret})
}

// assistantBody reads a body of JSON, which is checked by those who decode it.
func assistantBody(c echo.Context) ([]byte, error) {
	var raw map[string]json.RawMessage
	err := input.JSONOf(c, &raw, assistant.MaxBytes, false)
	var body bytes.Buffer
	if err == nil {
		err = json.NewEncoder(&body).Encode(raw)
	}
	return body.Bytes(), err
}

func (h *assistantRoutes) read(c echo.Context) error {
	a, err := h.store.Find(c.Request().Context(), identity(c).Owner, c.Param("assistant"))
	if err != nil {
		return orAssistant(err)
	}
	return c.JSON(http.StatusOK, a.Shown())
}

// change applies a JSON merge patch.
func (h *assistantRoutes) change(c echo.Context) error {
	patch, err := assistantBody(c)
	if err != nil {
		return err
	}
	owner := identity(c).Owner
	a, err := h.store.Change(c.Request().Context(), owner, c.Param("assistant"), func(a assistant.Assistant) (assistant.Assistant, error) {
		a, err := a.Patch(patch)
		if err == nil {
			err = h.check(a)
		}
		return a, err
	})
	if err != nil {
		return orAssistant(err)
	}
	h.events.note(c, "assistant changed", owner, "assistant_id", a.ID, "shared", a.Shared)
	return c.JSON(http.StatusOK, a)
}

func (h *assistantRoutes) delete(c echo.Context) error {
	owner, id := identity(c).Owner, c.Param("assistant")
	if err := h.store.Delete(c.Request().Context(), owner, id); err != nil {
		return orAssistant(err)
	}
	h.events.note(c, "assistant deleted", owner, "assistant_id", id)
	return c.NoContent(http.StatusNoContent)
}

// check returns what is wrong with an owner's assistant.
func (h *assistantRoutes) check(a assistant.Assistant) error {
	if err := CheckAssistant(a, h.known); err != nil {
		return err
	}
	if !h.limits.MayUse(a.Text.Provider, a.Text.Model) {
		return problem.Forbidden("model_not_allowed", "This provider and model may not be used here.")
	}
	return nil
}

// AssistantNames are the names that assistants may use. Nil lists allow all.
type AssistantNames struct{ Upstreams, Providers, MCPServers []string }

// CheckAssistant returns what is wrong with an assistant that was read, beyond its form: an *assistant.Error, or nil.
func CheckAssistant(a assistant.Assistant, known AssistantNames) error {
	bad := func(path, reason string) error { return &assistant.Error{Path: path, Reason: reason} }
	unknown := func(path, name string, names []string) error {
		if name == "" || names == nil || slices.Contains(names, name) {
			return nil
		}
		return bad(path, "there is no "+name+"; there is "+strings.Join(names, ", "))
	}
	for _, err := range []error{unknown("voice.upstream", a.Voice.Upstream, known.Upstreams), unknown("text.provider", a.Text.Provider, known.Providers)} {
		if err != nil {
			return err
		}
	}
	for i, name := range slices.Concat(a.Tools.Allow, a.Tools.Deny) {
		if strings.HasSuffix(name, ":write") {
			path := "tools.allow[" + strconv.Itoa(i) + "]"
			if n := len(a.Tools.Allow); i >= n {
				path = "tools.deny[" + strconv.Itoa(i-n) + "]"
			}
			return bad(path, "only tools.approve takes the ending :write")
		}
	}
	for i, name := range a.MCPServers {
		if known.MCPServers != nil && !slices.Contains(known.MCPServers, name) {
			return bad("mcp_servers["+strconv.Itoa(i)+"]", "there is no such MCP server")
		}
	}
	if t := a.Voice.TurnDetection; t != nil {
		if field, reason := realtime.CheckTurnDetection(t.Object()); reason != "" {
			return bad(strings.TrimSuffix("voice.turn_detection."+field, "."), reason)
		}
	}
	if len(a.Extract) > 0 {
		if err := toolkit.CheckParameters(a.Extract); err != nil {
			return bad("extract", strings.ReplaceAll(err.Error(), "the parameters", "the schema"))
		}
	}
	names := map[string]bool{}
	for i, t := range a.HTTPTools {
		path := "http_tools[" + strconv.Itoa(i) + "]."
		if names[t.Name] {
			return bad(path+"name", "it is the name of another")
		}
		names[t.Name] = true
		if len(t.Parameters) > 0 {
			if err := toolkit.CheckParameters(t.Parameters); err != nil {
				return bad(path+"parameters", err.Error())
			}
		}
	}
	return nil
}
