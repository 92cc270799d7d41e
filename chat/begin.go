package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// maxTokensWithTools bounds the raised token limit of an answer that may call tools.
const maxTokensWithTools = 4096

// eventWaiting says which server a turn waits for before it begins.
const eventWaiting persistence.EventType = "waiting"

// prepare determines what the turn needs: provider, model, tools, context.
func (t *Turn) prepare(ctx context.Context) error {
	var err error
	if t.cfg, err = t.cfg.of(ctx, t.req.Key, t.req.User); err != nil {
		return err
	}
	model, err := t.cfg.model(ctx, &t.req)
	if err != nil {
		return err
	}
	if t.req.Session {
		t.req.NoServerTools, t.req.Discard = true, true
		t.req.Client = &ClientTools{Tools: model.tools}
	}
	saved, err := savedImages(ctx, t.cfg.Store, t.req.Key, t.req.ImageIDs)
	if err != nil {
		return err
	}
	t.req.Images = append(slices.Clone(t.req.Images), saved...)
	registry := toolkit.NewRegistry()
	if t.cfg.Tools != nil && !t.req.NoServerTools {
		waiting := toolkit.WithWaiting(ctx, func(server string) {
			t.publish(eventWaiting,
				map[string]string{"server": server, "message": fmt.Sprintf("Waiting for the tools of %q…", server)})
		})
		if registry, err = t.cfg.Tools(waiting, t.req.Key.Owner, t.cfg.assistant); err != nil {
			return fmt.Errorf("list tools: %w", err)
		}
		registry = registry.Clone()
	}
	for _, tool := range t.req.Lent {
		if err := registry.Add(toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorClient}); err != nil {
			t.log.Info("lent tool left out", "error", err)
		}
	}
	left := func(string) bool { return false }
	if t.req.Client != nil {
		t.client = newClient(t.requestTool, t.cfg.ClientTimeout)
		if err := t.client.declare(registry, t.req.Client.Tools); err != nil {
			return err
		}
		if !t.req.Client.Wait {
			left = t.client.has
		}
	}
	if words := strings.TrimSpace(t.req.Text + t.req.Question); words != "" || t.req.Saved {
		if t.note, err = contextNote(ctx, t.cfg.Context,
			ContextInput{Key: t.req.Key, Text: words, Now: time.Now()}); err != nil {
			t.log.Warn("no context for the turn", "error", err)
		}
	}
	model.accepts = llm.Of(model.provider, model.request.Model)
	model.request.NeedsTools = len(t.req.clientTools()) > 0 // an answer without the client's tools would be none
	if !model.accepts.NoTools || model.request.NeedsTools {
		model.request.Tools = offered(registry)
	}
	most := answerTokens(t.cfg.MaxTokens, registry.Len() > 0)
	if own := t.cfg.assistant.Text.MaxTokens; own > 0 {
		t.cfg.assistant.Set(&most, &own)
	}
	model.request.MaxTokens = cmp.Or(model.request.MaxTokens, most)
	t.assemble(model, registry, left)
	return nil
}

// assemble makes the parts of the turn.
func (t *Turn) assemble(m model, registry *toolkit.Registry, left func(string) bool) {
	name := m.provider.Name()
	meta := thread.Metadata{
		Model: m.request.Model, Extra: map[string]json.RawMessage{extraProvider: toolkit.Encode(name)},
	}
	if t.req.AskedBy != "" {
		meta.Extra[thread.MetadataAskedBy] = toolkit.Encode(t.req.AskedBy)
	}
	t.saver = &saver{stop: t.stop, writer: t.cfg.Writer, key: t.req.Key}
	t.draft = newDraft(meta, t.id, &t.events, t.publish, t.saver)
	t.message = t.draft.msg.ID
	asks := &questions{
		ctx: t.ctx, store: t.cfg.Store, key: t.req.Key, draft: t.draft, side: &t.side, news: make(chan func()),
	}
	limits := t.cfg.ToolLimits
	limits.Logger = cmp.Or(limits.Logger, t.cfg.Logger)
	t.tools = &tools{
		ctx: t.ctx, key: t.req.Key, provider: name, registry: registry, router: toolkit.NewRouter(registry, limits),
		approve: t.cfg.ApproveTools, left: left, draft: t.draft, saver: t.saver, asks: asks, side: &t.side,
		taken: map[string]bool{}, secrets: t.req.Secrets,
	}
	t.steps = &steps{
		ctx: t.ctx, cost: t.cfg.Cost, draft: t.draft, saver: t.saver, tools: t.tools, begun: t.begun, ask: llm.Ask{
			Provider: m.provider, Request: m.request, Attempts: t.cfg.Attempts, Silence: t.cfg.Silence,
			Meanwhile: asks.news, Log: t.log,
		},
	}
	t.prompt = &prompt{
		store: t.cfg.Store, history: t.cfg.History, provider: name, accepts: m.accepts, log: t.log, fitted: t.fitted,
	}
	t.prompt.limit()
}

// offered returns a registry's tools for a language model.
func offered(r *toolkit.Registry) []llm.Tool {
	definitions := r.Definitions()
	all := make([]llm.Tool, len(definitions))
	for i, d := range definitions {
		all[i] = llm.Tool(d)
	}
	return all
}

// answerTokens returns the token limit of an answer whose session and assistant set none: tool calls need extra room.
func answerTokens(configured int, tools bool) int {
	if configured == 0 || !tools {
		return configured
	}
	return max(configured, min(4*configured, maxTokensWithTools))
}

// open begins the turn in the database.
func (t *Turn) open(ctx context.Context) error {
	err := t.cfg.Store.Batch(ctx, t.req.Key, func(b *persistence.Batch) error {
		if err := t.claim(b); err != nil {
			return err
		}
		if err := closeWaiting(b); err != nil {
			return err
		}
		if q := t.req.Queued; q != nil {
			claimed, err := b.Queued.Send(q.ID, q.Attempt, true)
			if err == nil && !claimed {
				err = ErrUnclaimed
			}
			if err != nil {
				return err
			}
		}
		return t.openMessages(b)
	})
	if err == nil {
		t.req.Images = nil // they are saved, and may be large
	}
	return err
}

// claim gives the turn its thread, if the owner may have one more turn and there is no call that has not asked for it.
func (t *Turn) claim(b *persistence.Batch) error {
	if !t.req.Unlimited {
		if err := b.Records.RoomForTurn(t.cfg.TurnsPerOwner); errors.Is(err, persistence.ErrQuota) {
			return ErrTooMany
		}
	}
	err := b.ClaimTurn(t.id)
	if errors.Is(err, persistence.ErrConflict) {
		return ErrBusy
	}
	if err != nil || t.req.AskedBy != "" {
		return err
	}
	// A call may have begun while the turn was prepared.
	_, inCall, err := b.Records.LiveCall()
	if err == nil && inCall {
		return ErrCallChanging
	}
	return err
}

// openMessages saves the user's message, and the beginning of the answer.
func (t *Turn) openMessages(b *persistence.Batch) (err error) {
	t.settled = nil // the transaction may be retried
	if err := appendInstructions(b, t.req.Instructions, t.req.instructionID()); err != nil {
		return err
	}
	if t.req.Saved {
		if err := t.openSaved(b); err != nil {
			return err
		}
	}
	if err := t.discardReplaced(b); err != nil {
		return err
	}
	if t.req.says() {
		request := t.req // the transaction may be retried
		if request.Images, err = keepImages(b, t.req.Key.Thread, t.req.Images, t.cfg.ImageQuota); err != nil {
			return err
		}
		if t.user, err = b.AppendMessage(request.message(t.note)); err != nil {
			return err
		}
	}
	if asked := cmp.Or(t.user.ID, t.req.MessageID); asked != "" {
		t.draft.note(extraAnswers, asked)
	}
	saved, err := b.AppendMessage(t.draft.msg)
	t.draft.msg.Metadata.CreatedAt = saved.Metadata.CreatedAt
	return cmp.Or(err, b.Tell(persistence.Event{Type: "turn_started", Data: t.event()}))
}

// openSaved gives a saved message its context, if it has none, and brings it back, if it was discarded.
func (t *Turn) openSaved(b *persistence.Batch) error {
	m, err := b.Message(t.req.MessageID)
	if err != nil {
		return err
	}
	if err := t.settle(b, &m); err != nil {
		return err
	}
	bare, discarded := m.Role == thread.RoleUser && extraText(&m, extraContext) == "" && t.note != "", m.IsDiscarded()
	if bare {
		m = withContext(m, t.note)
	}
	if discarded {
		m = withExtra(m, extraDiscarded, false)
	}
	if bare || discarded {
		_, err = b.UpdateMessage(m)
	}
	return err
}

// discardReplaced leaves out of later requests what this turn replaces: the earlier answers to the message, or all that
// was said since the user's way back. What an operator has instructed stays. It looks when the turn has its thread, for
// the turn before may have ended at another process a moment ago, or with it.
func (t *Turn) discardReplaced(b *persistence.Batch) error {
	if t.req.Back == "" && !t.req.Saved {
		return nil
	}
	messages, err := b.Replay(maxReplay)
	if err != nil {
		return err
	}
	replaced := answersTo(messages, t.req.MessageID)
	if t.req.Back != "" {
		replaced = since(messages, t.req.Back)
	}
	for _, m := range replaced {
		if m.Role == thread.RoleSystem || m.ID == t.req.MessageID || m.IsDiscarded() {
			continue
		}
		if err := t.settle(b, &m); err != nil {
			return err
		}
		if _, err := b.UpdateMessage(withExtra(m, extraDiscarded, true)); err != nil {
			return err
		}
	}
	return nil
}

// settle ends the wait of a message from the queue for another answer: this turn answers or replaces it.
func (t *Turn) settle(b *persistence.Batch, m *thread.Message) error {
	id := extraText(m, thread.MetadataQueueID)
	if id == "" {
		return nil
	}
	settled, err := b.Queued.Settle(id)
	if settled {
		t.settled = append(t.settled, id)
	}
	return err
}
