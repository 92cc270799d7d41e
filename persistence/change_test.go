package persistence_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

func TestChangesRefuse(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"no list":         `{}`,
		"no JSON":         `[`,
		"an unknown kind": `[{"kind":"delete","change":{}}]`,
		"no kind":         `[{}]`,
		"no change":       `[{"kind":"call"}]`,
		"a wrong type":    `[{"kind":"message","change":{"message":{"parts":5}}}]`,
		"a typeless part": `[{"kind":"message","change":{"message":{"parts":[{}]}}}]`,
	} {
		var c persistence.Changes
		if err := json.Unmarshal([]byte(data), &c); err == nil {
			t.Errorf("Unmarshal() of %s = %v", name, c)
		}
	}
}

// TestLostChanges: the loss of a change is an error and counted, unless its thread has been deleted.
func TestLostChanges(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	counted := 0
	s := persistencetest.Open(t, persistencetest.SQLiteURL(t), persistence.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)), OnLost: func(changes int) { counted += changes },
	})
	newThread := func() thread.Key { return persistencetest.NewThread(t, s, "anna", "") }
	put := func(id string) persistence.Change {
		return persistence.PutMessage{
			Message: thread.Message{ID: id, Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("Hello.")}},
			Place:   persistence.Place{How: persistence.PlaceLast},
		}
	}
	live, deleted, other := newThread(), newThread(), newThread()
	if _, err := persistencetest.Apply(t.Context(), s, other, []persistence.Change{put("taken")}); err != nil {
		t.Fatalf("Apply() = %v", err)
	}
	must(t, s.DeleteThread(t.Context(), deleted))
	const lost, dropped = `level=ERROR msg="change of a thread lost"`, `level=INFO msg="change of a deleted thread dropped"`
	for _, tt := range []struct {
		name    string
		key     thread.Key
		changes []persistence.Change
		lines   int
		want    string
		count   int
	}{
		{"saved", live, []persistence.Change{put("m1")}, 0, "", 0},
		{"never valid", live, []persistence.Change{put("")}, 1, lost, 1},
		{"of another's message", live, []persistence.Change{put("taken")}, 1, lost, 1},
		{"some of a group", live, []persistence.Change{put(""), put("m2"), put("taken")}, 2, lost, 2},
		{"never valid, of no thread", thread.Key{}, []persistence.Change{put("m3")}, 1, lost, 1},
		{"of a deleted thread", deleted, []persistence.Change{put("m4")}, 1, dropped, 0},
		{"of a deleted thread's call", deleted, []persistence.Change{persistence.PutCall{Call: records.Call{ID: "c"}}}, 1, dropped, 0},
	} {
		log.Reset()
		counted = 0
		if _, err := s.ApplyAll(t.Context(), []persistence.ThreadChanges{
			{Key: tt.key, Changes: tt.changes}, {Key: other, Changes: []persistence.Change{put(tt.name)}},
		}); err != nil {
			t.Errorf("%s: ApplyAll() = %v", tt.name, err)
		}
		got := log.String()
		if strings.Count(got, "\n") != tt.lines || strings.Count(got, tt.want) < tt.lines || counted != tt.count {
			t.Errorf("%s: %d are counted, want %d; log: %s\nwant %d times: %s", tt.name, counted, tt.count, got, tt.lines, tt.want)
		}
	}
}
