package persistencetest

import (
	"syscall"
	"testing"
)

// Server is a PostgreSQL server of the test's own, which the test can crash and bring
// back.
type Server struct {
	t     testing.TB
	local *localServer
}

// NewServer starts a PostgreSQL server, which ends with the test.
func NewServer(t testing.TB) *Server {
	t.Helper()
	c, err := startLocal()
	must(t, err)
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Errorf("stop PostgreSQL: %v", err)
		}
	})
	return &Server{t, c}
}

// URL names the server's database, which is empty at first.
func (s *Server) URL() string { return s.local.url }

// Crash stops the server at once, as a failing machine would, so that it must recover when
// it is started again.
func (s *Server) Crash() {
	s.t.Helper()
	if err := s.local.halt(syscall.SIGQUIT); err != nil { // an immediate shutdown
		s.t.Errorf("crash PostgreSQL: %v", err)
	}
}

// Start brings the server back after a Crash.
func (s *Server) Start() {
	s.t.Helper()
	bin, err := findPostgres()
	if err == nil {
		err = s.local.launch(bin)
	}
	must(s.t, err)
}
