package simulator

import "testing"

// Holds reports whether the session holds its connection.
func (s *Session) Holds() bool { return s.peer.Load() != nil }

// TestWaitSessionAfterMany finds a session by its number among all, although ended ones before it were dropped.
func TestWaitSessionAfterMany(t *testing.T) {
	t.Parallel()
	s := &Server{cfg: Config{MaxSessions: 1}}
	ended := make(chan struct{})
	close(ended)
	var all []*Session
	for n := range maxEnded + 2 {
		ses := &Session{done: ended, err: ErrHungUp}
		if n == 1 {
			ses = &Session{done: make(chan struct{})}
		}
		all = append(all, ses)
		s.add(ses)
	}
	for _, n := range []int{2, 3, maxEnded + 2} {
		if got, err := s.WaitSession(t.Context(), n); err != nil || got != all[n-1] {
			t.Errorf("WaitSession(%d) = another session, %v", n, err)
		}
	}
	if _, err := s.WaitSession(t.Context(), 1); err == nil {
		t.Error("WaitSession() finds a dropped session")
	}
}
