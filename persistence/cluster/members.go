package cluster

import (
	"cmp"
	"log/slog"
	"sync"
	"time"

	"voicebridge/persistence/internal/pgdb"
)

const (
	// beatEvery is how often a serving process sends a heartbeat.
	beatEvery = 3 * time.Second
	// defaultDeadAfter is the default of Config.DeadAfter: five heartbeats.
	defaultDeadAfter = 15 * time.Second
)

// Address is where other processes of the database reach this one's HTTP server.
type Address struct {
	URL string // http:// or https:// with a host and a port; empty: nowhere
	// Certificate is the SHA-256, in hexadecimal, of the certificate that the server shows there, unless it is one that
	// the machine's authorities vouch for.
	Certificate string
}

// members holds what this process knows about which instances are alive. It compares no clocks: an
// instance is dead if its count of heartbeats has not changed for long enough by this process's
// clock, while this process kept looking; or at once if it was a process of this machine and that is
// gone.
type members struct {
	deadAfter time.Duration

	// host and process are thisProcess.
	host, process string

	mu        sync.Mutex
	instance  string
	fenced    chan struct{} // closed when others have fenced this instance
	checkedAt time.Time     // the last successful check
	seen      map[string]sighting
}

// sighting is when an instance was first seen with this number of heartbeats.
type sighting struct {
	beats     int64
	firstSeen time.Time
	ended     bool // it announced its end, or its process is gone
	address   Address
}

func newMembers(instance string, deadAfter time.Duration) *members {
	m := &members{deadAfter: cmp.Or(deadAfter, defaultDeadAfter), instance: instance, fenced: make(chan struct{})}
	m.host, m.process = thisProcess()
	return m
}

func (m *members) id() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.instance
}

func (m *members) done() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fenced
}

// lost records that others have fenced the instance.
func (m *members) lost(instance string, log *slog.Logger) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.fenced:
		return
	default:
	}
	if m.instance == instance {
		log.Error("other processes took this one for dead", "instance", instance)
		close(m.fenced)
	}
}

// renew gives the process a new id.
func (m *members) renew(instance string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.instance, m.fenced = instance, make(chan struct{})
}

// look takes note of the rows of all instances, which were read no earlier than at.
func (m *members) look(rows []pgdb.Instance, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// An instance that was away itself cannot tell who is dead: perhaps all lost the database. The
	// margin is for heartbeats that were up to two intervals old when it last looked.
	if at.Sub(m.checkedAt) > max(m.deadAfter-2*beatEvery, 2*beatEvery) {
		m.seen = nil
	}
	m.checkedAt = at
	seen := make(map[string]sighting, len(rows))
	for _, r := range rows {
		s, known := m.seen[r.ID]
		if !known || s.beats != r.Beats {
			s = sighting{beats: r.Beats, firstSeen: at}
		}
		s.ended = r.EndedAt != nil || r.Host != "" && r.Host == m.host && processGone(r.Process)
		s.address = Address{r.URL, r.Certificate}
		seen[r.ID] = s
	}
	m.seen = seen
}

// others returns the other instances that are not known to be dead.
func (m *members) others() (list []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, s := range m.seen {
		if id != m.instance && !s.ended && m.checkedAt.Sub(s.firstSeen) < m.deadAfter {
			list = append(list, id)
		}
	}
	return list
}

// dead reports whether the instance may be fenced, and its count of heartbeats then. An instance
// without a row never served, or died long ago.
func (m *members) dead(instance string) (beats int64, dead bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, known := m.seen[instance]
	if !known || s.ended {
		return s.beats, true
	}
	return s.beats, m.checkedAt.Sub(s.firstSeen) >= m.deadAfter
}

func (m *members) address(instance string) Address {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[instance].address
}
