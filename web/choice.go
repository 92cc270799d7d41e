package web

import (
	"context"
	"encoding/json"

	"voicebridge/assistant"
	"voicebridge/persistence"
	"voicebridge/thread"
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
	}
	threads interface {
		Thread(ctx context.Context, key thread.Key) (persistence.Thread, error)
		SetAssistant(ctx context.Context, key thread.Key, id string, variables map[string]string) (persistence.Thread, error)
	}
}

// check refuses an assistant that the owner has not, and bad values of variables.
func (f *assistantFinder) check(ctx context.Context, owner string, b threadAssistant) error {
	if err := assistant.CheckVariables(b.Variables); err != nil {
		return orAssistant(err)
	}
	if b.AssistantID.id == "" {
		return nil
	}
	_, err := f.store.Find(ctx, owner, b.AssistantID.id)
	return orAssistant(err)
}

// assign saves a choice that was checked.
func (f *assistantFinder) assign(ctx context.Context, key thread.Key, b threadAssistant) (persistence.Thread, error) {
	id := b.AssistantID.id
	if !b.AssistantID.set { // values alone
		t, err := f.threads.Thread(ctx, key)
		if err != nil {
			return t, err
		}
		id = t.AssistantID
	}
	return f.threads.SetAssistant(ctx, key, id, b.Variables)
}
