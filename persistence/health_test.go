package persistence_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

// A file locked by another program is unhealthy until the lock is released.
func TestHealthyLocked(t *testing.T) {
	t.Parallel()
	url := persistencetest.SQLiteURL(t)
	var saved, away int
	s := persistencetest.Open(t, url, persistence.Options{OnWrite: func(_ time.Duration, ok bool) {
		if ok {
			saved++
			return
		}
		away++
	}})
	must(t, s.Healthy(t.Context()))
	db, err := sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:")+"?_txlock=immediate")
	must(t, err)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.CreateThread(ctx, "anna", ""); !errors.Is(err, persistence.ErrUnavailable) {
		t.Errorf("CreateThread() = %v, want ErrUnavailable", err)
	}
	// An operation that fails for another reason does not make it healthy.
	if _, err := s.Message(t.Context(), thread.Key{Owner: "anna", Thread: "x"}, "x"); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("Message() = %v", err)
	}
	for limit := 50 * time.Millisecond; away == 1; limit *= 2 { // a busy machine does not even read in that time
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		if err := s.Healthy(ctx); !errors.Is(err, persistence.ErrUnavailable) {
			t.Fatalf("Healthy() = %v, want ErrUnavailable", err)
		}
		cancel()
	}
	must(t, tx.Rollback())
	must(t, s.Healthy(t.Context()))
	if _, err := s.CreateThread(t.Context(), "anna", ""); err != nil {
		t.Errorf("CreateThread() = %v", err)
	}
	if saved != 2 || away != 2 { // the health check and the thread; each failed once
		t.Errorf("reported %d saved transactions and %d failed ones, want 2 of each", saved, away)
	}
}
