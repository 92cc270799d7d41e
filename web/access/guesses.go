package access

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// Guesses limits how often a client may present a wrong token. It is safe for concurrent use.
type Guesses struct {
	perMinute int
	clients   *RateLimit
	remotes   *RateLimit
	rates     Rates

	mu sync.Mutex
	// proven has the pairs of a client and an owner whose token the client has presented.
	proven map[[2]string]bool
}

// Rates count for all instances together.
type Rates interface {
	// TakeRate counts one use of something with a limit per minute, or says how long to wait.
	TakeRate(ctx context.Context, name string, perMinute int) (wait time.Duration, err error)
}

// guessesPerRemote is how many times as often as one client all clients at one connection's address
// may guess together.
const guessesPerRemote = 50

func newGuesses(perMinute int, rates Rates, now func() time.Time) *Guesses {
	return &Guesses{
		perMinute: perMinute, clients: NewRateLimit(perMinute, now),
		remotes: NewRateLimit(perMinute*guessesPerRemote, now), rates: rates,
		proven: make(map[[2]string]bool),
	}
}

// right returns a 429 if the client has guessed too often, unless it has presented this owner's
// token before: others at the same address must not lock it out.
func (g *Guesses) right(c Peer, owner string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	who := [2]string{c.Client, owner}
	if g.proven[who] {
		return nil
	}
	if err := cmp.Or(g.clients.check(c.Client), g.remotes.check(c.Remote)); err != nil {
		return err
	}
	if len(g.proven) >= maxAddresses {
		clear(g.proven)
	}
	g.proven[who] = true
	return nil
}

// wrong counts a wrong token and returns the error for it: a 401 or a 429.
func (g *Guesses) wrong(ctx context.Context, c Peer, refused error) error {
	if err := g.clients.Take(c.Client); err != nil {
		return err
	}
	if err := g.remotes.Take(c.Remote); err != nil {
		return err
	}
	// All instances count together. Without the database, each counts on its own.
	if wait, err := g.rates.TakeRate(ctx, "sign-ins of "+c.Client, g.perMinute); err == nil && wait > 0 {
		return tooOften(wait)
	}
	return refused
}
