package bridge_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
)

// TestTakeoverFromProcessWithoutDatabase takes a thread over from a process that has ended its call but cannot save
// that: the answer is to try again, and not to ask for the takeover that was asked for.
func TestTakeoverFromProcessWithoutDatabase(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	here := persistencetest.Open(t, url, persistence.Options{Instance: "here"})
	b := newBench(t, here, benchConfig{bridge: bridge.Config{GiveUp: func(context.Context, records.Call, bool) error {
		return persistence.ErrNotFound // it has no such call any more
	}}})
	neighbour := persistencetest.Open(t, url, persistence.Options{Instance: "neighbour"})
	must(t, errors.Join(here.Serve(t.Context()), neighbour.Serve(t.Context())))
	key := persistencetest.NewThread(t, b.store, owner, "")
	must(t, neighbour.Records.SaveCall(t.Context(), key, records.Call{ID: "call", StartedAt: time.Now()}))
	for takeover, want := range map[bool]bridge.Code{true: bridge.CodeUnreachable, false: bridge.CodeCallActive} {
		if _, err := b.try(bridge.Start{ThreadID: key.Thread, Takeover: takeover}); !isCode(err, want) {
			t.Errorf("takeover %t: %v, want %s", takeover, err, want)
		}
	}
}
