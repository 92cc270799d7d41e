package web

import (
	"context"
	"encoding/json"

	"voicebridge/assistant"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/web/access"
)

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

// assistantFinder checks which assistants clients choose, and saves the choice with the thread.
type assistantFinder struct {
	store interface {
		Find(ctx context.Context, owner, id string) (assistant.Assistant, error)
		Get(ctx context.Context, owner string, ref assistant.Ref) (assistant.Assistant, error)
	}
	threads interface {
		Thread(ctx context.Context, key thread.Key) (persistence.Thread, error)
		SetAssistant(ctx context.Context, key thread.Key, a assistant.Ref, variables map[string]string) (persistence.Thread, error)
	}
}

// check returns which assistant is meant. It refuses one that the owner has not, and bad values of variables.
func (f *assistantFinder) check(ctx context.Context, owner string, b threadAssistant) (assistant.Ref, error) {
	if err := assistant.CheckVariables(b.Variables); err != nil {
		return assistant.Ref{}, orAssistant(err)
	}
	if b.AssistantID.id == "" {
		return assistant.Ref{}, nil
	}
	a, err := f.store.Find(ctx, owner, b.AssistantID.id)
	return a.Ref(), orAssistant(err)
}

// assign saves a choice with what check has found.
func (f *assistantFinder) assign(
	ctx context.Context, key thread.Key, b threadAssistant, chosen assistant.Ref,
) (persistence.Thread, error) {
	if !b.AssistantID.set { // values alone
		t, err := f.threads.Thread(ctx, key)
		if err != nil {
			return t, err
		}
		chosen = assistant.Ref{Owner: t.AssistantOwner, ID: t.AssistantID}
	}
	return f.threads.SetAssistant(ctx, key, chosen, b.Variables)
}

// ofCall returns the assistant of a call for which a client asks: the application's server may have chosen another one.
func (f *assistantFinder) ofCall(ctx context.Context, who access.Identity, asked string) (assistant.Ref, error) {
	if s := who.Secret; s != nil && s.AssistantID != "" {
		asked = s.AssistantID
		if s.AssistantOwner != nil {
			a, err := f.store.Get(ctx, who.Owner, assistant.Ref{Owner: *s.AssistantOwner, ID: asked})
			return a.Ref(), orAssistant(err)
		}
	}
	return f.check(ctx, who.Owner, threadAssistant{AssistantID: assistantID{id: asked}})
}
