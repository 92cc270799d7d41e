package cluster

import "sync"

// asked knows what this process is asked, and what it has asked.
type asked struct {
	// commands holds one signal: that there is a command for this process.
	commands chan struct{}

	mu sync.Mutex
	// answers has a channel for each command that waits for its answer, by id.
	answers map[string]chan struct{}
}

func newAsked() *asked {
	return &asked{commands: make(chan struct{}, 1), answers: map[string]chan struct{}{}}
}

// await returns a channel that gets a signal when the command is answered.
func (a *asked) await(command string) chan struct{} {
	answered := make(chan struct{}, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[command] = answered
	return answered
}

func (a *asked) forget(command string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.answers, command)
}

func (a *asked) answered(command string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if to := a.answers[command]; to != nil {
		signal(to)
	}
}

// signal never blocks.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
