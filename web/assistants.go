package web

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

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

// assistantRoutes serves the routes about assistants.
type assistantRoutes struct{ *api }

func (h assistantRoutes) routes(r router) {
	r.explain = orAssistant
	route(r, "GET /api/assistants", h.list)
	route(r, "POST /api/assistants", h.create)
	route(r, "GET /api/assistants/:assistant", h.read)
	route(r, "PATCH /api/assistants/:assistant", h.change)
	route(r, "DELETE /api/assistants/:assistant", h.delete)
}

var errNoAssistant = problem.NotFound("assistant_not_found", "There is no such assistant.")

// orAssistant replaces the store's errors by those about an assistant.
func orAssistant(err error) error {
	if e, ok := errors.AsType[*assistant.Error](err); ok {
		return problem.BadRequest("invalid_value", e.Path, e.Error()+".")
	}
	switch {
	case errors.Is(err, assistants.ErrReadOnly):
		return problem.Conflict("read_only", "", "This assistant is not yours to change. Make a copy.")
	case errors.Is(err, persistence.ErrNotFound):
		return errNoAssistant
	case errors.Is(err, persistence.ErrQuota):
		return problem.Conflict("too_many_assistants", "", "You have as many assistants as you may. Delete one.")
	case errors.Is(err, persistence.ErrConflict):
		return problem.Conflict("assistant_exists", "id", "There is an assistant with this id.")
	}
	return err
}

// maxPlace limits the cursor of a page, in bytes.
const maxPlace = 1024

type assistantPage struct {
	Assistants []assistant.Assistant `json:"assistants"`
	NextCursor *string               `json:"next_cursor"` // null on the last page
}

type assistantList struct {
	Limit  int64  `query:"limit" range:"100,1,200"`
	Cursor string `query:"cursor"`
}

// list answers with a page, without what is long in an assistant: read has it.
func (h assistantRoutes) list(ctx context.Context, who caller, in assistantList) (page assistantPage, err error) {
	if in.Cursor != "" && !input.ValidID(in.Cursor, maxPlace) {
		return page, problem.Invalid("cursor", "cursor does not come from this server.")
	}
	all, next, err := h.Store.Assistants.List(ctx, who.Owner, in.Cursor, int(in.Limit))
	page.Assistants = all
	if next != "" {
		page.NextCursor = &next
	}
	return page, err
}

// createdAssistant is the only answer that shows the secret.
type createdAssistant struct {
	assistant.Assistant

	Secret string `json:"secret"`
}

// assistantBody is a body of JSON, which is checked by those who decode it.
type assistantBody map[string]json.RawMessage

func (b assistantBody) raw() []byte {
	raw, _ := json.Marshal(b) // it was read just now
	return raw
}

type newAssistant struct {
	Body assistantBody `body:"256 KiB"`
}

func (h assistantRoutes) create(
	ctx context.Context, who caller, in newAssistant,
) (made reply[createdAssistant], err error) {
	a, err := assistant.Parse(in.Body.raw())
	if err == nil {
		err = h.check(a)
	}
	if err != nil {
		return made, err
	}
	var asked string // Parse makes an id of the name
	_ = json.Unmarshal(in.Body["id"], &asked)
	if a, err = h.Store.Assistants.Create(ctx, who.Owner, a, asked != ""); err != nil {
		return made, err
	}
	h.events.note(who, "assistant created", "assistant_id", a.ID, "shared", a.Shared)
	return created("/api/assistants/"+url.PathEscape(a.ID), createdAssistant{a, a.Secret}), nil
}

type oneAssistant struct {
	ID string `path:"assistant"`
}

func (h assistantRoutes) read(ctx context.Context, who caller, in oneAssistant) (assistant.Assistant, error) {
	a, err := h.Store.Assistants.Find(ctx, who.Owner, in.ID)
	return a.Shown(), err
}

type changedAssistant struct {
	ID   string        `path:"assistant"`
	Body assistantBody `body:"256 KiB"`
}

// change applies a JSON merge patch.
func (h assistantRoutes) change(ctx context.Context, who caller, in changedAssistant) (assistant.Assistant, error) {
	a, err := h.Store.Assistants.Change(ctx, who.Owner, in.ID,
		func(a assistant.Assistant) (assistant.Assistant, error) {
			a, err := a.Patch(in.Body.raw())
			if err == nil {
				err = h.check(a)
			}
			return a, err
		})
	if err == nil {
		h.events.note(who, "assistant changed", "assistant_id", a.ID, "shared", a.Shared)
	}
	return a, err
}

func (h assistantRoutes) delete(ctx context.Context, who caller, in oneAssistant) (none, error) {
	err := h.Store.Assistants.Delete(ctx, who.Owner, in.ID)
	if err == nil {
		h.events.note(who, "assistant deleted", "assistant_id", in.ID)
	}
	return none{}, err
}

// check returns what is wrong with an owner's assistant.
func (h assistantRoutes) check(a assistant.Assistant) error {
	if err := CheckAssistant(a, h.AssistantNames); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(a.Transfers)) {
		if !h.Phone.Dials(a.Transfers[name].Number) {
			return &assistant.Error{
				Path: "transfers." + name + ".number", Reason: "it must begin with one of phone.dial_prefixes",
			}
		}
	}
	if !h.Limits.MayUse(a.Text.Provider, a.Text.Model) {
		return problem.Forbidden("model_not_allowed", "This provider and model may not be used here.")
	}
	return nil
}

// CheckAssistant returns what is wrong with an assistant that was read, beyond its form: an *assistant.Error, or nil.
func CheckAssistant(a assistant.Assistant, known AssistantNames) error {
	bad := func(path, reason string) error { return &assistant.Error{Path: path, Reason: reason} }
	unknown := func(path, name string, names []string) error {
		if name == "" || names == nil || slices.Contains(names, name) {
			return nil
		}
		return bad(path, "there is no "+name+"; there is "+strings.Join(names, ", "))
	}
	for _, err := range []error{
		unknown("voice.upstream", a.Voice.Upstream, known.Upstreams),
		unknown("text.provider", a.Text.Provider, known.Providers),
	} {
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

// threadAssistant is the part of a body that chooses the assistant of a thread.
type threadAssistant struct {
	// AssistantID is nil if it is missing; null and "" mean the server's settings.
	AssistantID assistantID       `json:"assistant_id"`
	Variables   map[string]string `json:"variables"`
}

// assistantID is an id, or null, which is as an empty one.
type assistantID struct {
	set bool
	id  string
}

// UnmarshalJSON reads an id or null.
func (a *assistantID) UnmarshalJSON(raw []byte) error {
	a.set = true
	return json.Unmarshal(raw, &a.id)
}

// chosen reports whether a body says something about the assistant.
func (b *threadAssistant) chosen() bool { return b.AssistantID.set || b.Variables != nil }

// checkChoice returns which assistant is meant. It refuses one that the owner has not, and bad values of variables.
func (a *api) checkChoice(ctx context.Context, owner string, b threadAssistant) (assistant.Ref, error) {
	if err := assistant.CheckVariables(b.Variables); err != nil {
		return assistant.Ref{}, orAssistant(err)
	}
	if b.AssistantID.id == "" {
		return assistant.Ref{}, nil
	}
	found, err := a.Store.Assistants.Find(ctx, owner, b.AssistantID.id)
	return found.Ref(), orAssistant(err)
}

// assign saves a choice with what checkChoice has found.
func (a *api) assign(
	ctx context.Context, key thread.Key, b threadAssistant, chosen assistant.Ref,
) (persistence.Thread, error) {
	if !b.AssistantID.set { // values alone
		t, err := a.Store.Thread(ctx, key)
		if err != nil {
			return t, err
		}
		chosen = assistant.Ref{Owner: t.AssistantOwner, ID: t.AssistantID}
	}
	return a.Store.SetAssistant(ctx, key, chosen, b.Variables)
}

// ofCall returns the assistant of a call for which a client asks: the application's server may have chosen another one.
func (a *api) ofCall(ctx context.Context, who access.Identity, asked string) (assistant.Ref, error) {
	if s := who.Secret; s != nil && s.AssistantID != "" {
		asked = s.AssistantID
		if s.AssistantOwner != nil {
			chosen, err := a.Store.Assistants.Get(ctx, who.Owner, assistant.Ref{Owner: *s.AssistantOwner, ID: asked})
			return chosen.Ref(), orAssistant(err)
		}
	}
	return a.checkChoice(ctx, who.Owner, threadAssistant{AssistantID: assistantID{id: asked}})
}
