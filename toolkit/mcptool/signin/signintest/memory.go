package signintest

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrNone is the error for a sign-in that has not begun.
var ErrNone = errors.New("no such thing")

type key struct{ owner, server string }

type saved struct {
	sealed  string
	version int64
	until   time.Time
}

type begun struct {
	key

	sealed string
}

// Memory keeps what a desk keeps in the database, by the machine's clock.
type Memory struct {
	mu      sync.Mutex
	last    int64
	grants  map[key]saved
	begun   map[string]begun
	clients map[string]string
	failing int
}

// NewMemory returns one with nothing in it.
func NewMemory() *Memory {
	return &Memory{grants: map[key]saved{}, begun: map[string]begun{}, clients: map[string]string{}}
}

// Grant is that of grants.Store.
func (m *Memory) Grant(_ context.Context, owner, server string) (string, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.grants[key{owner, server}]
	return g.sealed, g.version, nil
}

// SaveGrant is that of grants.Store.
func (m *Memory) SaveGrant(_ context.Context, owner, server, sealed string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	m.grants[key{owner, server}] = saved{sealed: sealed, version: m.last}
	return nil
}

// BeginRenewal is that of grants.Store.
func (m *Memory) BeginRenewal(_ context.Context, owner, server string, version int64, lasting time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.grants[key{owner, server}]
	if g.version != version || g.until.After(time.Now()) {
		return false, nil
	}
	g.until = time.Now().Add(lasting)
	m.grants[key{owner, server}] = g
	return true, nil
}

// FinishRenewal is that of grants.Store.
func (m *Memory) FinishRenewal(_ context.Context, owner, server string, version int64, sealed string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failing > 0 {
		m.failing--
		return false, errors.New("the database is away")
	}
	if m.grants[key{owner, server}].version != version {
		return false, nil
	}
	m.last++
	m.grants[key{owner, server}] = saved{sealed: sealed, version: m.last}
	return true, nil
}

// AbandonRenewal is that of grants.Store.
func (m *Memory) AbandonRenewal(_ context.Context, owner, server string, version int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g := m.grants[key{owner, server}]; g.version == version {
		m.grants[key{owner, server}] = saved{sealed: g.sealed, version: version}
	}
	return nil
}

// DeleteGrant is that of grants.Store.
func (m *Memory) DeleteGrant(_ context.Context, owner, server string, version int64) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, ok := m.grants[key{owner, server}]
	if !ok || version != 0 && g.version != version {
		return false, nil
	}
	delete(m.grants, key{owner, server})
	return true, nil
}

// BeginSignIn is that of grants.Store.
func (m *Memory) BeginSignIn(_ context.Context, state, owner, server, sealed string, _ time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun[state] = begun{key{owner, server}, sealed}
	return false, nil
}

// PendingSignIn is that of grants.Store.
func (m *Memory) PendingSignIn(_ context.Context, state string) (owner, server, sealed string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.begun[state]
	if !ok {
		return "", "", "", ErrNone
	}
	return b.owner, b.server, b.sealed, nil
}

// EndSignIn is that of grants.Store.
func (m *Memory) EndSignIn(_ context.Context, state string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.begun[state]
	delete(m.begun, state)
	return ok, nil
}

// DropSignIns is that of grants.Store.
func (m *Memory) DropSignIns(_ context.Context, owner, server string) (dropped bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for state, b := range m.begun {
		if b.key == (key{owner, server}) {
			delete(m.begun, state)
			dropped = true
		}
	}
	return dropped, nil
}

// Client is that of grants.Store.
func (m *Memory) Client(_ context.Context, server string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clients[server], nil
}

// SaveClient is that of grants.Store.
func (m *Memory) SaveClient(_ context.Context, server, sealed string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clients[server] = sealed
	return nil
}

// Fail makes the next n renewals fail to be saved.
func (m *Memory) Fail(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failing = n
}

// Move gives an owner another's row.
func (m *Memory) Move(from, to, server string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.grants[key{to, server}] = m.grants[key{from, server}]
}

// Grants returns how many there are.
func (m *Memory) Grants() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.grants)
}

// All returns everything that is saved.
func (m *Memory) All() (list []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.grants {
		list = append(list, g.sealed)
	}
	for state, b := range m.begun {
		list = append(list, state, b.sealed)
	}
	for _, c := range m.clients {
		list = append(list, c)
	}
	return list
}
