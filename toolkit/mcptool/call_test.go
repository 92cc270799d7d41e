package mcptool

import (
	"context"
	"errors"
	"testing"
)

// TestSilentServer has calls time out. A server that handles one call at a time is silent during a long one: it is
// suspect only after several in a row.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	s := &server{suspect: make(chan struct{}, 1)}
	l := &link{open: t.Context()}
	called := func(calls int) (suspect bool) {
		for range calls {
			if err := s.lost(l, context.DeadlineExceeded); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("lost() = %v", err)
			}
		}
		return len(s.suspect) == 1
	}
	if called(maxUnanswered - 1) {
		t.Error("suspect too early")
	}
	l.unanswered.Store(0) // a sign of life
	if called(maxUnanswered - 1) {
		t.Error("suspect although it has answered")
	}
	if !called(1) {
		t.Errorf("not suspect after %d calls", maxUnanswered)
	}
}
