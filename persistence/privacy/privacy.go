// Package privacy gives an owner everything that is kept of theirs as one archive, and erases it. Each kind of data has
// its Part here, so that neither forgets one.
package privacy

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/export"
	"voicebridge/thread"
)

// Part is one kind of data of an owner.
type Part struct {
	// Name is the part's file or folder in the archive.
	Name string
	// Export writes the owner's data, and no one else's; nil if there is nothing that the owner could read.
	Export func(ctx context.Context, owner string, a *Archive) error
	// Erase deletes them; nil if they go with those of another part.
	Erase func(ctx context.Context, owner string) error
}

// Parts are those of the database. Others add theirs.
func Parts(s *persistence.Store) []Part {
	return []Part{
		{"threads", threads{s}.export, threads{s}.erase},
		{"assistants.json", exportAssistants(s), s.Assistants.EraseOwner},
		{"hooks.json", exportHooks(s), s.Hooks.EraseOwner},
		{"MCP grants", nil, s.Grants.EraseOwner},
		// Last: whoever erases their data is signed in until then.
		{"sessions", nil, func(ctx context.Context, owner string) error {
			_, err := s.Admission.DeleteTokens(ctx, owner)
			return err
		}},
		{"what followers learn", nil, s.EraseEventsOf},
	}
}

// Archive is the ZIP file that Export writes.
type Archive struct{ zip *zip.Writer }

// Add begins a file, which lasts until the next one. Each element of its path is made safe for file systems.
func (a *Archive) Add(elements ...string) (io.Writer, error) {
	for i, e := range elements {
		if e = url.PathEscape(e); strings.Trim(e, ".") == "" {
			e = "%" + e // no . nor ..
		}
		elements[i] = e
	}
	w, err := a.zip.CreateHeader(
		&zip.FileHeader{Name: path.Join(elements...), Method: zip.Deflate, Modified: time.Now().UTC()},
	)
	if err != nil {
		return nil, fmt.Errorf("add to archive: %w", err)
	}
	return w, nil
}

// JSON adds a file with a value as JSON.
func (a *Archive) JSON(v any, elements ...string) error {
	w, err := a.Add(elements...)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// Export writes everything of an owner as a ZIP file. After an error the file is incomplete.
func Export(ctx context.Context, w io.Writer, owner string, parts []Part) error {
	if !thread.ValidID(owner) {
		return fmt.Errorf("export owner: %w", persistence.ErrNotFound)
	}
	a := &Archive{zip.NewWriter(w)}
	if err := a.JSON(map[string]any{"owner": owner, "exported_at": time.Now().UTC()}, "owner.json"); err != nil {
		return fmt.Errorf("export owner: %w", err)
	}
	for _, p := range parts {
		if p.Export == nil {
			continue
		}
		if err := p.Export(ctx, owner, a); err != nil {
			return fmt.Errorf("export %s: %w", p.Name, err)
		}
	}
	return a.zip.Close()
}

// Erase deletes everything of an owner. It goes on after an error, which it returns in the end: then something may be
// left.
func Erase(ctx context.Context, owner string, parts []Part) error {
	if !thread.ValidID(owner) {
		return fmt.Errorf("erase owner: %w", persistence.ErrNotFound)
	}
	var errs []error
	for _, p := range parts {
		if p.Erase == nil {
			continue
		}
		if err := p.Erase(ctx, owner); err != nil {
			errs = append(errs, fmt.Errorf("erase %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// threads are an owner's, with what belongs to them.
type threads struct{ s *persistence.Store }

func (t threads) export(ctx context.Context, owner string, a *Archive) error {
	const folder = "threads"
	filter := persistence.ThreadFilter{Limit: 200}
	seen := map[string]bool{} // one that is used meanwhile may come twice
	for {
		page, next, err := t.s.Threads(ctx, owner, filter)
		if err != nil {
			return err
		}
		for _, th := range page {
			if seen[th.ID] {
				continue
			}
			seen[th.ID] = true
			if err := t.exportOne(ctx, thread.Key{Owner: owner, Thread: th.ID}, th, a, folder); err != nil &&
				!errors.Is(err, persistence.ErrNotFound) {
				return err
			}
		}
		if filter.Cursor = next; next == "" {
			return nil
		}
	}
}

func (t threads) exportOne(
	ctx context.Context, key thread.Key, th persistence.Thread, a *Archive, folder string,
) error {
	w, err := a.Add(folder, key.Thread, "thread.json")
	if err != nil {
		return err
	}
	if err := export.Write(w, export.JSON, th, export.Messages(ctx, t.s, key)); err != nil {
		return err
	}
	calls, err := t.s.Records.Calls(ctx, key)
	if err != nil {
		return err
	}
	if len(calls) > 0 {
		shown := make([]call, 0, len(calls))
		for _, c := range calls {
			shown = append(shown, call{
				c.ID, c.Upstream, c.Model, c.Voice, c.StartedAt, c.EndedAt, c.EndReason, c.Turns, c.Interruptions,
				c.AssistantID, c.Summary, c.Extracted,
			})
		}
		if err := a.JSON(shown, folder, key.Thread, "calls.json"); err != nil {
			return err
		}
	}
	tools, err := t.s.Records.ToolCalls(ctx, key)
	if err != nil {
		return err
	}
	if len(tools) > 0 {
		shown := make([]toolCall, 0, len(tools))
		for _, c := range tools {
			shown = append(shown, toolCall{
				c.ToolCallID, c.MessageID, c.CallID, c.Name, c.Executor, c.Server, string(c.Status), jsonOf(c.Input),
				jsonOf(c.Output), c.Error, c.StartedAt, c.FinishedAt,
			})
		}
		if err := a.JSON(shown, folder, key.Thread, "tool_calls.json"); err != nil {
			return err
		}
	}
	responses, err := t.s.Records.Responses(ctx, key)
	if err != nil {
		return err
	}
	if len(responses) > 0 {
		shown := make([]response, 0, len(responses))
		for _, r := range responses {
			shown = append(shown, response{
				string(r.Kind), r.CallID, r.MessageID, r.Upstream, r.Model, r.Status, r.Usage, r.CostUSD, r.CreatedAt,
				r.FinishedAt,
			})
		}
		if err := a.JSON(shown, folder, key.Thread, "responses.json"); err != nil {
			return err
		}
	}
	images, err := t.s.Pictures.List(ctx, key)
	if err != nil {
		return err
	}
	for _, id := range images {
		image, err := t.s.Pictures.Read(ctx, key, id)
		if errors.Is(err, persistence.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		_, kind, _ := strings.Cut(image.MediaType, "/")
		w, err := a.Add(folder, key.Thread, "images", id+"."+kind)
		if err != nil {
			return err
		}
		if _, err := w.Write(image.Data); err != nil {
			return err
		}
	}
	return nil
}

// call is a call as its owner reads it.
type call struct {
	ID            string     `json:"id"`
	Upstream      string     `json:"upstream"`
	Model         string     `json:"model"`
	Voice         string     `json:"voice"`
	StartedAt     time.Time  `json:"started_at"`
	EndedAt       *time.Time `json:"ended_at"`
	EndReason     string     `json:"end_reason"`
	Turns         int64      `json:"turns"`
	Interruptions int64      `json:"interruptions"`
	AssistantID   string     `json:"assistant_id,omitempty"`

	Summary   string          `json:"summary,omitempty"`
	Extracted json.RawMessage `json:"extracted,omitempty"`
}

// toolCall is a tool call as its owner reads it.
type toolCall struct {
	ID         string          `json:"tool_call_id"`
	MessageID  string          `json:"message_id"`
	CallID     string          `json:"call_id,omitempty"`
	Name       string          `json:"name"`
	Executor   string          `json:"executor"`
	Server     string          `json:"server,omitempty"`
	Status     string          `json:"status"`
	Input      json.RawMessage `json:"input"`
	Output     json.RawMessage `json:"output"`
	Error      string          `json:"error,omitempty"`
	StartedAt  time.Time       `json:"started_at"`
	FinishedAt *time.Time      `json:"finished_at"`
}

// response is a use of a model, with what it cost, as its owner reads it.
type response struct {
	Kind       string       `json:"kind"`
	CallID     string       `json:"call_id,omitempty"`
	MessageID  string       `json:"message_id,omitempty"`
	Upstream   string       `json:"upstream"`
	Model      string       `json:"model"`
	Status     string       `json:"status"`
	Usage      thread.Usage `json:"usage"`
	CostUSD    *float64     `json:"cost_usd"`
	CreatedAt  time.Time    `json:"created_at"`
	FinishedAt *time.Time   `json:"finished_at"`
}

// jsonOf returns what a tool got or gave as JSON: a model may write what is not.
func jsonOf(raw string) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	if json.Valid([]byte(raw)) {
		return json.RawMessage(raw)
	}
	text, _ := json.Marshal(raw) // a string can always be encoded
	return text
}

// erase deletes all threads, also those that are made meanwhile.
func (t threads) erase(ctx context.Context, owner string) error {
	for {
		page, _, err := t.s.Threads(ctx, owner, persistence.ThreadFilter{Limit: 200})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, th := range page {
			if err := t.s.DeleteThread(ctx, thread.Key{Owner: owner, Thread: th.ID}); err != nil &&
				!errors.Is(err, persistence.ErrNotFound) {
				return err
			}
		}
	}
}

func exportAssistants(s *persistence.Store) func(context.Context, string, *Archive) error {
	return func(ctx context.Context, owner string, a *Archive) error {
		own, err := s.Assistants.OwnedBy(ctx, owner)
		if err != nil || len(own) == 0 {
			return err
		}
		return a.JSON(own, "assistants.json")
	}
}

// hook is a hook as its owner reads it, without the secret.
type hook struct {
	ID        string    `json:"id"`
	URL       string    `json:"url"`
	Events    []string  `json:"events"`
	Enabled   bool      `json:"enabled"`
	CreatedAt time.Time `json:"created_at"`
}

func exportHooks(s *persistence.Store) func(context.Context, string, *Archive) error {
	return func(ctx context.Context, owner string, a *Archive) error {
		list, err := s.Hooks.List(ctx, owner)
		if err != nil || len(list) == 0 {
			return err
		}
		shown := make([]hook, 0, len(list))
		for _, h := range list {
			shown = append(shown, hook{h.ID, h.URL, h.Events, h.Enabled, h.CreatedAt})
		}
		return a.JSON(shown, "hooks.json")
	}
}
