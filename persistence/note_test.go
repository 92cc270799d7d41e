package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// When the database cannot keep up, drafts are dropped and counted, but each thread's last
// hint is kept.
func TestOutboxOverflow(t *testing.T) {
	t.Parallel()
	dropped := 0
	o := newOutbox("me", slog.New(slog.DiscardHandler), func() { dropped++ }, nil)
	draft := func(n int) note {
		return note{Type: "draft", Key: Key{"a", "t"}, Data: fmt.Appendf(nil, "%d", n)}
	}
	for i := range maxNotes + 10 {
		o.put(draft(i))
	}
	for i := range 30 {
		o.put(note{Type: "message", Key: Key{"a", fmt.Sprint("thread", i%3)}, Seq: int64(i)})
	}
	if dropped != 10 {
		t.Errorf("%d drafts were dropped, want 10", dropped)
	}
	var sent []note
	for p := o.take(); len(p) > 0; p = o.take() {
		if len(p) > notesPerSend {
			t.Fatalf("a batch of %d notes", len(p))
		}
		for _, l := range p {
			var n note
			if err := json.Unmarshal([]byte(l.payload), &n); err != nil {
				t.Fatal(err)
			}
			if n.Count != int64(len(sent)+1) || n.Instance != "me" {
				t.Fatalf("note %d is %s", len(sent), l.payload)
			}
			sent = append(sent, n)
		}
	}
	if len(sent) != maxNotes+3 {
		t.Fatalf("%d notes, want %d drafts and 3 hints", len(sent), maxNotes)
	}
	for _, n := range sent[maxNotes:] {
		if n.Seq < 27 {
			t.Errorf("the hint for %s has number %d, want the last one", n.Key.Thread, n.Seq)
		}
	}
}

// What the database refuses is counted; what comes later is sent.
func TestOutboxFailure(t *testing.T) {
	t.Parallel()
	dropped := make(chan struct{}, 10)
	sent := make(chan []letter)
	fail := true
	o := newOutbox("me", slog.New(slog.DiscardHandler), func() { dropped <- struct{}{} }, func(_ context.Context, p []letter) error {
		if fail {
			fail = false
			return errors.New("no")
		}
		sent <- p
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); o.run(ctx) }()
	o.put(note{Type: "lost", Data: json.RawMessage("1")})
	<-dropped
	o.put(note{Type: "large", Data: json.RawMessage(`"` + strings.Repeat("x", maxPayload) + `"`)})
	<-dropped
	o.put(note{Type: "kept", Data: json.RawMessage("1")})
	if p := <-sent; len(p) != 1 || !strings.Contains(p[0].payload, `"kept"`) {
		t.Errorf("sent %q", p)
	}
	cancel()
	<-done
}
