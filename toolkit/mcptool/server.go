package mcptool

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"voicebridge/toolkit"
)

// tool is a tool of a server. It stays usable across reconnections.
type tool struct {
	server    *server
	owner     string // whose connection runs it, of a server of which each owner has one
	remote    string // its name on the server
	def       toolkit.Definition
	asks      bool // it has changed since it was pinned
	unchecked bool // our validator cannot read the schema; the server checks the arguments itself
}

// equal reports whether two versions of a tool are the same for its users.
func (t *tool) equal(other *tool) bool {
	return t.remote == other.remote && t.asks == other.asks && t.unchecked == other.unchecked &&
		t.def.Name == other.def.Name &&
		t.def.Description == other.def.Description && bytes.Equal(t.def.Parameters, other.def.Parameters)
}

var (
	errClosed     = errors.New("the server was closed")
	errNeverTried = errors.New("not connected yet")
)

// server is one configured server and its connection, if there is one.
type server struct {
	name    string
	config  Server
	options Options
	log     *slog.Logger
	secrets *strings.Replacer
	owner   string // empty if it serves all
	// reach returns the connected server of an owner for a call, and what to do after it.
	reach   func(ctx context.Context, owner string, call toolkit.Call) (s *server, release func(), err error)
	closing context.Context // done when all servers are closed
	// carry returns what carries a connection, in tests; nil means what the type says.
	carry func() carrier
	// end ends what connects the owner.
	end func(why error)

	// old means that the next attempt uses the older handshake. Only one attempt runs at a time.
	old bool

	changed chan struct{} // the tool list has changed; capacity 1
	suspect chan struct{} // a call failed in a way that may mean a dead connection; capacity 1

	mu      sync.Mutex
	moved   chan struct{} // closed at the next change of link or err
	link    *link         // nil while not connected
	retired []*link       // whose session the server has forgotten, with calls that still run
	offer   []*tool
	held    []Held          // tools that are not offered as they are
	err     error           // why link is nil
	logged  map[string]bool // oddities of the server
}

func newServer(closing context.Context, name string, config Server, options Options) *server {
	return &server{
		name: name, config: config, options: options, closing: closing,
		log:     options.Logger.With("server", name),
		secrets: secretsOf(config),
		changed: make(chan struct{}, 1), suspect: make(chan struct{}, 1),
		err: errNeverTried, moved: make(chan struct{}), logged: map[string]bool{},
	}
}

// explain returns the text of an error without secrets.
func (s *server) explain(err error) string { return s.secrets.Replace(err.Error()) }

// current returns the connection, or why there is none.
func (s *server) current() (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link, s.err
}

// move sets the connection, or says why there is none. s.mu is held.
func (s *server) move(l *link, why error) {
	s.link, s.err = l, why
	close(s.moved)
	s.moved = make(chan struct{})
}

// use returns the connection for a call, to be left, or why there is none. With other, it waits for the one after that.
func (s *server) use(ctx context.Context, other *link) (*link, error) {
	for {
		s.mu.Lock()
		l, err := s.link, s.err
		moved := s.moved
		if l != nil && l != other {
			l.calls++
			s.mu.Unlock()
			return l, nil
		}
		s.mu.Unlock()
		if other == nil {
			return nil, err
		}
		select {
		case <-moved:
		case <-s.closing.Done():
			return nil, errClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// leave ends the use of a connection, and the connection itself if it has been replaced.
func (s *server) leave(l *link) {
	s.mu.Lock()
	l.calls--
	i := slices.Index(s.retired, l)
	last := i >= 0 && l.calls == 0
	if last {
		s.retired = slices.Delete(s.retired, i, i+1)
	}
	s.mu.Unlock()
	if last {
		l.close(errClosed)
	}
}

func (s *server) tools() []*tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil {
		return nil
	}
	return s.offer
}

func (s *server) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := Status{Name: s.name, Connected: s.link != nil}
	if s.link != nil {
		status.Tools, status.Held = len(s.offer), s.held
	} else {
		status.Error = s.explain(s.err)
	}
	return status
}

// fail says why there is no connection.
func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.move(nil, err)
}

// notify sets a signal unless it is already set.
func notify(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
