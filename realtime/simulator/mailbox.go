package simulator

import "sync"

// maxMail limits what waits for a session. More ends the session: its client sends faster than it works.
const maxMail = 8192

// mailbox carries work from other goroutines to the session's own.
type mailbox struct {
	mu    sync.Mutex
	work  []func()
	full  bool
	ready chan struct{} // holds a token when there is work
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

// post adds work. It never blocks; if too much is waiting, f is dropped.
func (m *mailbox) post(f func()) {
	m.mu.Lock()
	if len(m.work) < maxMail {
		m.work = append(m.work, f)
	} else {
		m.full = true
	}
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// take returns what is waiting, in order; overflow means that something was dropped.
func (m *mailbox) take() (work []func(), overflow bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	work, m.work = m.work, nil
	return work, m.full
}
