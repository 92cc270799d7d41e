// Package hooks delivers what owners and the operator want to be told: it posts signed events to their addresses, as
// Standard Webhooks says, until they have arrived.
package hooks

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/hooked"
	"voicebridge/toolkit/webhook"
)

const (
	// parallel limits how many deliveries of one hook are sent at the same time by one process: one that does not
	// answer costs others nothing. After patience failures in a row it is one.
	parallel = 8
	patience = 5
	// maxSending limits those of all hooks, maxWriting the transactions about them: calls come first.
	maxSending = 512
	maxWriting = 4
	// lookEvery is how often to look for what is due, such as another attempt. What has just happened is sent at once.
	lookEvery = time.Second
	// sendGrace is how long attempts may take when the process stops.
	sendGrace = 3 * time.Second
	// saveAgain is the pause before the end of an attempt is saved once more.
	saveAgain = time.Second

	userAgent = "voicebridge"
)

// store keeps what is to be delivered; *hooked.Store implements it.
type store interface {
	Woken() <-chan struct{}
	TakeFresh() []string
	Due(ctx context.Context) ([]string, error)
	Claim(ctx context.Context, hook string, limit int, alone bool) (hooked.Hook, []hooked.Delivery, error)
	Finish(ctx context.Context, d hooked.Delivery, o hooked.Outcome) (after hooked.Delivery, found bool, err error)
	GiveBack(ctx context.Context, d hooked.Delivery) error
}

// Result is what an attempt has led to.
type Result string

// The results of attempts.
const (
	ResultDelivered Result = "delivered"
	ResultRetried   Result = "retried" // it failed, and there will be another one
	ResultFailed    Result = "failed"  // it was the last one
	ResultGone      Result = "gone"    // the receiver answered 410
	ResultLost      Result = "lost"    // another process may send it, too, or nobody wants it any more
)

// Results are all of them.
var Results = []Result{ResultDelivered, ResultRetried, ResultFailed, ResultGone, ResultLost}

// Config configures a Sender. Store and Addresses are required.
type Config struct {
	// Store keeps what is to be delivered; *hooked.Store implements it.
	Store     store
	Addresses *Addresses
	// Operator holds the secrets of the operator's hooks by their URLs.
	Operator map[string]webhook.Secret
	// OnAttempt is called after each attempt with how long the receiver took; nil does nothing.
	OnAttempt func(result Result, took time.Duration)
	Logger    *slog.Logger
}

// Sender delivers events to hooks, beside those of other processes.
type Sender struct {
	cfg      Config
	operator map[string]webhook.Secret // by the hook's id
	post     func(ctx context.Context, to string, header http.Header, body []byte) (int, error)
	sending  chan struct{}
	writing  chan struct{}

	mu        sync.Mutex
	receivers map[string]*receiver // with a goroutine
	inDoubt   map[string]bool      // hooks of which it is not known whether something was claimed
	running   sync.WaitGroup
}

// receiver is a hook that is being served by a goroutine.
type receiver struct {
	wake chan struct{} // something more may be due
}

// New returns a Sender.
func New(cfg Config) *Sender {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.OnAttempt == nil {
		cfg.OnAttempt = func(Result, time.Duration) {}
	}
	s := &Sender{
		cfg: cfg, operator: map[string]webhook.Secret{}, post: cfg.Addresses.post, receivers: map[string]*receiver{},
		inDoubt: map[string]bool{}, sending: make(chan struct{}, maxSending), writing: make(chan struct{}, maxWriting),
	}
	for url, secret := range cfg.Operator {
		s.operator[hooked.OperatorID(url)] = secret
	}
	return s
}

// Run delivers until ctx ends. Attempts that are being made then may end within seconds.
func (s *Sender) Run(ctx context.Context) error {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for failed := false; ctx.Err() == nil; {
		var due []string
		select {
		case <-ctx.Done():
			continue
		case <-s.cfg.Store.Woken():
			due = s.cfg.Store.TakeFresh()
		case <-look.C:
			var err error
			if due, err = s.cfg.Store.Due(ctx); err != nil && !failed && ctx.Err() == nil {
				s.cfg.Logger.Warn("deliveries to hooks not looked for", "error", err)
			}
			failed = err != nil
			due = append(due, s.claimedPerhaps()...)
		}
		for _, id := range due {
			s.serve(ctx, sending, id)
		}
	}
	defer time.AfterFunc(sendGrace, stop).Stop()
	s.running.Wait()
	return nil
}

func (s *Sender) claimedPerhaps() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.inDoubt))
}

// serve has a goroutine look after a hook.
func (s *Sender) serve(ctx, sending context.Context, id string) {
	if _, known := s.operator[id]; !known && strings.HasPrefix(id, hooked.OperatorPrefix) {
		return // of a process with other settings
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.receivers[id]; r != nil {
		select {
		case r.wake <- struct{}{}:
		default:
		}
		return
	}
	r := &receiver{wake: make(chan struct{}, 1)}
	s.receivers[id] = r
	s.running.Go(func() { s.deliverAll(ctx, sending, id, r) })
}

// deliverAll sends what is due to one hook, until there is nothing more, or ctx ends.
func (s *Sender) deliverAll(ctx, sending context.Context, id string, r *receiver) {
	busy, failures := 0, 0
	ended := make(chan bool) // whether the receiver has answered well
	more := true
	for {
		room := parallel - busy
		if failures >= patience {
			room = 1 - busy
		}
		if more && room > 0 && ctx.Err() == nil {
			hook, claimed := s.claim(ctx, id, room, busy == 0)
			more = len(claimed) == room
			for _, d := range claimed {
				busy++
				s.running.Go(func() { ended <- s.deliver(sending, hook, d) })
			}
			continue
		}
		if busy == 0 && s.leave(id, r) {
			return
		}
		select {
		case good := <-ended:
			if busy--; good {
				failures = 0
			} else {
				failures++
			}
		case <-r.wake:
			more = true
		}
	}
}

// leave ends the goroutine of a hook, unless there is something more.
func (s *Sender) leave(id string, r *receiver) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(r.wake) > 0 {
		return false
	}
	delete(s.receivers, id)
	return true
}

// claim takes what is due. alone means that this process is sending nothing to the hook. Whether a claim that fails has
// taken something is not known: the next one finds out.
func (s *Sender) claim(ctx context.Context, id string, limit int, alone bool) (hooked.Hook, []hooked.Delivery) {
	defer s.write()()
	hook, claimed, err := s.cfg.Store.Claim(ctx, id, limit, alone)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && alone {
		delete(s.inDoubt, id)
	}
	if err == nil {
		return hook, claimed
	}
	s.inDoubt[id] = true
	if ctx.Err() == nil && !errors.Is(err, persistence.ErrUnavailable) {
		s.cfg.Logger.Warn("deliveries not claimed", "hook_id", id, "error", err)
	}
	return hook, nil
}

// write waits for its turn to write, and returns what ends it.
func (s *Sender) write() (done func()) {
	s.writing <- struct{}{}
	return func() { <-s.writing }
}

// deliver makes one attempt and records its end. It reports whether the receiver has the event.
func (s *Sender) deliver(ctx context.Context, hook hooked.Hook, d hooked.Delivery) bool {
	var outcome hooked.Outcome
	began := time.Now()
	select {
	case s.sending <- struct{}{}:
		began = time.Now()
		outcome = s.attempt(ctx, hook, d)
		<-s.sending
	case <-ctx.Done():
	}
	took := time.Since(began)
	if ctx.Err() != nil && outcome.Status == 0 { // broken off because the process stops
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendGrace)
		defer cancel()
		defer s.write()()
		if err := s.cfg.Store.GiveBack(end, d); err != nil {
			s.cfg.Logger.Info("delivery left to other processes", "hook_id", d.HookID, "delivery", d.ID, "error", err)
		}
		return false
	}
	result := s.finish(ctx, d, outcome)
	s.cfg.OnAttempt(result, took)
	s.cfg.Logger.Debug("event posted", "hook_id", d.HookID, "delivery", d.ID, "type", d.Type, "status", outcome.Status,
		"error", outcome.Error, "result", string(result))
	return result == ResultDelivered
}

// attempt posts an event once.
func (s *Sender) attempt(ctx context.Context, hook hooked.Hook, d hooked.Delivery) hooked.Outcome {
	secret, ok := s.operator[hook.ID]
	if !ok {
		var err error
		if secret, err = webhook.ParseSecret(hook.Secret); err != nil {
			return hooked.Outcome{Error: "the hook has no secret"}
		}
	}
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": {userAgent}}
	secret.Sign(header, d.ID, time.Now(), []byte(d.Body))
	status, err := s.post(ctx, hook.URL, header, []byte(d.Body))
	if err != nil {
		return hooked.Outcome{Error: err.Error()}
	}
	return hooked.Outcome{Status: status}
}

// finish records the end of an attempt. While the database is away it tries again: if the process stops before, or is
// taken for dead, another one sends the event once more.
func (s *Sender) finish(ctx context.Context, d hooked.Delivery, o hooked.Outcome) Result {
	for {
		after, found, err := s.save(ctx, d, o)
		switch {
		case errors.Is(err, persistence.ErrFenced), errors.Is(err, persistence.ErrClosed):
			return ResultLost
		case err != nil:
			s.cfg.Logger.Log(ctx, slog.LevelDebug, "end of a delivery not saved yet", "hook_id", d.HookID, "delivery",
				d.ID, "error", err)
			select {
			case <-time.After(saveAgain):
				continue
			case <-ctx.Done():
				return ResultLost
			}
		case !found:
			return ResultLost
		case after.State == hooked.Delivered:
			return ResultDelivered
		case after.State == hooked.Waiting:
			return ResultRetried
		case o.Status == http.StatusGone:
			s.cfg.Logger.Info("hook switched off: its receiver is gone", "hook_id", d.HookID)
			return ResultGone
		}
		s.cfg.Logger.Info("event not delivered", "hook_id", d.HookID, "delivery", d.ID, "type", d.Type,
			"status", o.Status, "error", o.Error)
		return ResultFailed
	}
}

func (s *Sender) save(ctx context.Context, d hooked.Delivery, o hooked.Outcome) (hooked.Delivery, bool, error) {
	defer s.write()()
	return s.cfg.Store.Finish(ctx, d, o)
}
