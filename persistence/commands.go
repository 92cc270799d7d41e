package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

const (
	// commandLife is how long a command may wait if the sender has no deadline: what takes long where the call is, such
	// as a text while its upstream is being replaced, must not fail because of where it was asked for.
	commandLife = 30 * time.Second
	// commandPoll is how often a process looks for commands whose notifications were lost.
	commandPoll = 5 * time.Second
	// answerPoll is the same for answers.
	answerPoll = 500 * time.Millisecond
	// maxCommandBytes limits a command's body, and its answer.
	maxCommandBytes = 1 << 20
)

// Command asks the instance that has a thread's call or turn to do something with it.
type Command struct {
	ID       string // filled in by Ask
	Instance string // the recipient: CallRecord.Instance, TurnRecord.Instance
	Key      thread.Key
	Kind     string          // what to do, as agreed between both sides
	Body     json.RawMessage // its arguments; may be nil
	// expiresAt is when the sender stops waiting, by the database's clock.
	expiresAt time.Time
}

// CommandError is a command's failure on the other instance. For [errors.Is] it is the error that its code names.
type CommandError struct {
	Code    string // of codes, or as agreed between both sides; empty if there is nothing to tell apart
	Message string
}

func (e *CommandError) Error() string { return e.Message }

// codes name the errors that a command's sender tells apart.
var codes = map[string]error{
	"not_found": ErrNotFound, "conflict": ErrConflict, "busy": ErrBusy, "unavailable": ErrUnavailable, "fenced": ErrFenced, "closed": ErrClosed,
}

const codeInvalid = "invalid"

// Is reports whether the code names target.
func (e *CommandError) Is(target error) bool {
	return e.Code != "" && codes[e.Code] == target
}

// commandError returns the form in which a failure is saved.
func commandError(err error) *CommandError {
	if failed, ok := errors.AsType[*CommandError](err); ok {
		return failed
	}
	if errors.Is(err, ErrInvalid) {
		return &CommandError{codeInvalid, strings.TrimPrefix(Reason(err), ErrInvalid.Error()+" ")}
	}
	failed := &CommandError{Message: err.Error()}
	for code, known := range codes {
		if errors.Is(err, known) {
			failed.Code = code
		}
	}
	return failed
}

// Ask has another instance, or this one, carry out a command, and returns its answer. ErrGone means
// that the instance is known to be dead, ctx's error that it did not respond, although it may have
// done what was asked. A CommandError is the failure that the instance reported.
func (s *Store) Ask(ctx context.Context, c Command) (json.RawMessage, error) {
	if err := checkKey(c.Key); err != nil || !thread.ValidID(c.Instance) || !thread.ValidID(c.Kind) || len(c.Body) > maxCommandBytes {
		return nil, fmt.Errorf("ask instance: %w", Invalid("command"))
	}
	ctx, cancel := context.WithTimeout(ctx, commandLife)
	defer cancel()
	if err := s.checkAlive(ctx, c.Instance); err != nil {
		return nil, s.fail("ask instance", err)
	}
	deadline, _ := ctx.Deadline()
	c.ID, c.expiresAt = NewID(), s.now().Add(time.Until(deadline))
	answered := s.hub.await(c.ID)
	defer s.hub.forget(c.ID)
	err := s.write(ctx, func(q queries) error {
		return q.SaveCommand(ctx, pgdb.SaveCommandParams{
			ID: c.ID, Instance: c.Instance, Owner: c.Key.Owner, ThreadID: c.Key.Thread, Kind: thread.CleanText(c.Kind),
			Body: thread.CleanText(string(c.Body)), CreatedAt: dbtype.At(s.now()), ExpiresAt: dbtype.At(c.expiresAt),
		})
	})
	if err != nil {
		return nil, s.fail("ask instance", err)
	}
	defer s.forgetCommand(context.WithoutCancel(ctx), c.ID)
	if c.Instance == s.Instance() {
		signal(s.hub.commands)
	} else {
		s.outbox.tell(wake{Command: c.Instance})
	}
	return s.awaitAnswer(ctx, c, answered)
}

// checkAlive returns ErrGone for an instance that is known to be dead.
func (s *Store) checkAlive(ctx context.Context, instance string) error {
	if !s.shared || !s.serving.Load() || instance == s.Instance() {
		return nil
	}
	if err := s.look(ctx); err != nil {
		return err
	}
	if _, dead := s.lease.dead(instance); dead {
		return ErrGone
	}
	return nil
}

func (s *Store) awaitAnswer(ctx context.Context, c Command, answered <-chan struct{}) (json.RawMessage, error) {
	poll := time.Tick(answerPoll)
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("ask instance: %w", context.Cause(ctx))
		case <-answered:
		case <-poll:
		}
		row, err := s.eng.read().GetCommand(ctx, pgdb.GetCommandParams{ID: c.ID})
		if err == nil && row.AnsweredAt == nil {
			err = s.checkAlive(ctx, c.Instance)
		}
		switch err = s.fail("ask instance", err); {
		case errors.Is(err, ErrUnavailable): // a connection was lost: the command is carried out all the same
		case err != nil:
			return nil, err
		case row.AnsweredAt == nil:
		case row.Code == codeInvalid:
			return nil, fmt.Errorf("ask instance: %w", Invalid("%s", row.Error))
		case row.Error != "":
			return nil, fmt.Errorf("ask instance: %w", &CommandError{Code: row.Code, Message: row.Error})
		case row.Reply == "":
			return nil, nil
		default:
			return json.RawMessage(row.Reply), nil
		}
	}
}

// forgetCommand removes a command that nobody waits for, and those whose senders died.
func (s *Store) forgetCommand(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := s.write(ctx, func(q queries) error {
		return q.DeleteCommand(ctx, pgdb.DeleteCommandParams{ID: id, Before: dbtype.At(s.now().Add(-time.Minute))})
	}); err != nil {
		s.log.Warn("command of another instance not removed", "error", err)
	}
}

// HandleCommands carries out the commands of other instances, each once and in a goroutine of its
// own, until ctx ends. The context of handle ends when the sender stops waiting.
func (s *Store) HandleCommands(ctx context.Context, handle func(context.Context, Command) (json.RawMessage, error)) error {
	var running sync.WaitGroup
	defer running.Wait()
	every := commandPoll
	if p := time.Duration(s.poll.Load()); p > 0 {
		every = min(every, p)
	}
	poll := time.Tick(every)
	for {
		commands, err := s.takeCommands(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("commands of other instances not read", "error", err)
		}
		for _, c := range commands {
			running.Go(func() { s.carryOut(ctx, c, handle) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.closed:
			return ErrClosed
		case <-s.hub.commands:
		case <-poll:
		}
	}
}

// takeCommands does not wait for long: while it hangs at a connection that is lost, nobody reaches this process.
func (s *Store) takeCommands(ctx context.Context) ([]Command, error) {
	ctx, cancel := context.WithTimeout(ctx, commandPoll)
	defer cancel()
	at := s.now()
	rows, err := s.eng.read().ListCommands(ctx, pgdb.ListCommandsParams{Instance: s.Instance(), Now: dbtype.At(at)})
	var taken []Command
	for _, r := range rows {
		var n int64
		if err = s.write(ctx, func(q queries) (err error) {
			n, err = q.TakeCommand(ctx, pgdb.TakeCommandParams{ID: r.ID, TakenAt: new(dbtype.At(at))})
			return err
		}); err != nil {
			break
		}
		if n == 0 {
			continue
		}
		c := Command{ID: r.ID, Instance: r.Instance, Key: thread.Key{Owner: r.Owner, Thread: r.ThreadID}, Kind: r.Kind, expiresAt: r.ExpiresAt.Time}
		if r.Body != "" {
			c.Body = json.RawMessage(r.Body)
		}
		taken = append(taken, c)
	}
	return taken, err
}

// handle runs the handler of one command until its sender stops waiting. A panic becomes an error,
// so that other commands go on.
func (s *Store) handle(ctx context.Context, c Command, handle func(context.Context, Command) (json.RawMessage, error)) (reply json.RawMessage, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.expiresAt.Sub(s.now()))
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("command of another instance panicked", "kind", c.Kind, "panic", p, "stack", string(debug.Stack()))
			err = errors.New("internal error")
		}
	}()
	return handle(ctx, c)
}

func (s *Store) carryOut(ctx context.Context, c Command, handle func(context.Context, Command) (json.RawMessage, error)) {
	reply, err := s.handle(ctx, c, handle)
	if err == nil && len(reply) > maxCommandBytes {
		err = errors.New("the answer is too large")
	}
	params := pgdb.AnswerCommandParams{ID: c.ID, AnsweredAt: new(dbtype.At(s.now()))}
	if err != nil {
		failed := commandError(err)
		params.Code, params.Error = failed.Code, thread.CleanText(failed.Message)
	} else {
		params.Reply = thread.CleanText(string(reply))
	}
	if err := s.answer(ctx, c, params); err != nil {
		s.log.Warn("command of another instance not answered", "kind", c.Kind, "error", err)
		return
	}
	s.hub.answered(c.ID)
	s.outbox.tell(wake{Answer: c.ID})
}

// answer saves an answer. While the database is unavailable it tries again, until nobody waits for the answer or ctx ends.
func (s *Store) answer(ctx context.Context, c Command, params pgdb.AnswerCommandParams) error {
	for {
		try, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		err := s.write(try, func(q queries) error { return q.AnswerCommand(try, params) })
		cancel()
		if err == nil || s.eng.problem(err) != problemAway || s.now().After(c.expiresAt) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(answerPoll):
		}
	}
}
