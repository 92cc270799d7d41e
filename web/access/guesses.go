package access

import (
	"cmp"
	"sync"
)

// Guesses limits how often a client may present a wrong token. It is safe for concurrent use.
type Guesses struct {
	clients *RateLimit
	remotes *RateLimit

	mu sync.Mutex
	// proven has the pairs of a client and an owner whose token the client has presented.
	proven map[[2]string]bool
}

// guessesPerRemote is how many times as often as one client all clients at one connection's address
// may guess together.
const guessesPerRemote = 50

func newGuesses(perMinute int, clients *RateLimit) *Guesses {
	return &Guesses{clients: clients, remotes: NewRateLimit(perMinute*guessesPerRemote, clients.now), proven: make(map[[2]string]bool)}
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
func (g *Guesses) wrong(c Peer, refused error) error {
	if err := g.clients.Take(c.Client); err != nil {
		return err
	}
	if err := g.remotes.Take(c.Remote); err != nil {
		return err
	}
	return refused
}
