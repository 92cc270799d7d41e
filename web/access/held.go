package access

import (
	"context"
	"errors"
	"sync"
	"time"

	"voicebridge/persistence"
)

// ErrEnded is the cause that ends a socket or stream whose owner has signed out, whose credential
// was revoked or has expired.
var ErrEnded = errors.New("signed out or expired")

// lookEvery is how often sessions that hold something open are checked: another instance may have
// ended them.
const lookEvery = 5 * time.Second

// held are the sockets and streams that end with the session that opened them. It is safe for
// concurrent use.
type held struct {
	mu   sync.Mutex
	next int
	all  map[int]holding
}

type holding struct {
	session, owner string
	end            context.CancelCauseFunc
}

func newHeld() *held { return &held{all: make(map[int]holding)} }

// Hold returns a context that ends, with the cause [ErrEnded], when the identity does. release must
// be called.
func (a *Authenticator) Hold(parent context.Context, who Identity) (ctx context.Context, release func()) {
	ctx, end := context.WithCancelCause(parent)
	h := a.held
	h.mu.Lock()
	id := h.next
	h.next++
	h.all[id] = holding{who.session, who.Owner, end}
	h.mu.Unlock()
	var timer *time.Timer
	if !who.Until.IsZero() {
		timer = time.AfterFunc(who.Until.Sub(a.sessions.now()), func() { end(ErrEnded) })
	}
	return ctx, func() {
		if timer != nil {
			timer.Stop()
		}
		h.mu.Lock()
		delete(h.all, id)
		h.mu.Unlock()
		end(nil)
	}
}

func (h *held) end(which func(session, owner string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.all {
		if which(x.session, x.owner) {
			x.end(ErrEnded)
		}
	}
}

func (h *held) sessions() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make(map[string]bool)
	for _, x := range h.all {
		if x.session != "" {
			out[x.session] = true
		}
	}
	return out
}

// Run ends what is held open by sessions that another instance has ended, until ctx ends. If the
// database does not answer, it ends nothing.
func (a *Authenticator) Run(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			a.Look(ctx)
		}
	}
}

// Look ends what is held open by sessions that are gone.
func (a *Authenticator) Look(ctx context.Context) {
	for id := range a.held.sessions() {
		if _, err := a.sessions.store.AccessToken(ctx, kindSession, id); errors.Is(err, persistence.ErrNotFound) {
			a.held.end(func(session, _ string) bool { return session == id })
		}
	}
}
