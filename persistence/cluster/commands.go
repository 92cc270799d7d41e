package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"voicebridge/persistence/internal/database"
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
	Instance string // the recipient: records.Call.Instance, TurnRecord.Instance
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
	"not_found": database.ErrNotFound, "conflict": database.ErrConflict, "busy": database.ErrBusy,
	"unavailable": database.ErrUnavailable, "fenced": database.ErrFenced, "closed": database.ErrClosed,
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
	if errors.Is(err, database.ErrInvalid) {
		return &CommandError{codeInvalid, strings.TrimPrefix(database.Reason(err), database.ErrInvalid.Error()+" ")}
	}
	failed := &CommandError{Message: err.Error()}
	for code, sentinel := range codes {
		if errors.Is(err, sentinel) {
			failed.Code = code
		}
	}
	return failed
}

// Ask has another instance, or this one, carry out a command, and returns its answer. ErrGone means
// that the instance is known to be dead, ctx's error that it did not respond, although it may have
// done what was asked. A CommandError is the failure that the instance reported.
func (c *Cluster) Ask(ctx context.Context, cmd Command) (json.RawMessage, error) {
	if err := database.CheckKey(cmd.Key); err != nil || !thread.ValidID(cmd.Instance) || !thread.ValidID(cmd.Kind) ||
		len(cmd.Body) > maxCommandBytes {
		return nil, fmt.Errorf("ask instance: %w", database.Invalid("command"))
	}
	ctx, cancel := context.WithTimeout(ctx, commandLife)
	defer cancel()
	if err := c.checkAlive(ctx, cmd.Instance); err != nil {
		return nil, c.db.Fail("ask instance", err)
	}
	deadline, _ := ctx.Deadline()
	cmd.ID, cmd.expiresAt = database.NewID(), c.db.Now().Add(time.Until(deadline))
	answered := c.asked.await(cmd.ID)
	defer c.asked.forget(cmd.ID)
	err := c.db.Write(ctx, func(q database.Queries) error {
		return q.SaveCommand(ctx, pgdb.SaveCommandParams{
			ID: cmd.ID, Instance: cmd.Instance, Owner: cmd.Key.Owner, ThreadID: cmd.Key.Thread,
			Kind: thread.CleanText(cmd.Kind), Body: thread.CleanText(string(cmd.Body)),
			CreatedAt: dbtype.At(c.db.Now()), ExpiresAt: dbtype.At(cmd.expiresAt),
		})
	})
	if err != nil {
		return nil, c.db.Fail("ask instance", err)
	}
	defer c.forgetCommand(context.WithoutCancel(ctx), cmd.ID)
	if cmd.Instance == c.Instance() {
		c.HasCommand()
	} else {
		c.db.TellCommand(cmd.Instance)
	}
	return c.awaitAnswer(ctx, cmd, answered)
}

// HasCommand says that there may be a command for this process.
func (c *Cluster) HasCommand() { signal(c.asked.commands) }

// Answered says that a command, which this process may have given, is answered.
func (c *Cluster) Answered(command string) { c.asked.answered(command) }

// checkAlive returns ErrGone for an instance that is known to be dead.
func (c *Cluster) checkAlive(ctx context.Context, instance string) error {
	if !c.db.Shared() || !c.Serving() || instance == c.Instance() {
		return nil
	}
	if err := c.Look(ctx); err != nil {
		return err
	}
	if _, dead := c.Dead(instance); dead {
		return database.ErrGone
	}
	return nil
}

func (c *Cluster) awaitAnswer(ctx context.Context, cmd Command, answered <-chan struct{}) (json.RawMessage, error) {
	poll := time.Tick(answerPoll)
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("ask instance: %w", context.Cause(ctx))
		case <-answered:
		case <-poll:
		}
		row, err := c.db.Read().GetCommand(ctx, cmd.ID)
		if err == nil && row.AnsweredAt == nil {
			err = c.checkAlive(ctx, cmd.Instance)
		}
		switch err = c.db.Fail("ask instance", err); {
		case errors.Is(err, database.ErrUnavailable): // a connection was lost: the command is carried out all the same
		case err != nil:
			return nil, err
		case row.AnsweredAt == nil:
		case row.Code == codeInvalid:
			return nil, fmt.Errorf("ask instance: %w", database.Invalid("%s", row.Error))
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
func (c *Cluster) forgetCommand(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := c.db.Write(ctx, func(q database.Queries) error {
		return q.DeleteCommand(ctx, id, dbtype.At(c.db.Now().Add(-time.Minute)))
	}); err != nil {
		c.log.Warn("command of another instance not removed", "error", err)
	}
}

// HandleCommands carries out the commands of other instances, each once and in a goroutine of its
// own, until ctx ends. The context of handle ends when the sender stops waiting.
func (c *Cluster) HandleCommands(
	ctx context.Context, handle func(context.Context, Command) (json.RawMessage, error),
) error {
	var running sync.WaitGroup
	defer running.Wait()
	every := commandPoll
	if p := c.db.Poll(); p > 0 {
		every = min(every, p)
	}
	poll := time.Tick(every)
	for {
		commands, err := c.takeCommands(ctx)
		if err != nil && ctx.Err() == nil {
			c.log.Warn("commands of other instances not read", "error", err)
		}
		for _, cmd := range commands {
			running.Go(func() { c.carryOut(ctx, cmd, handle) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.db.Closed():
			return database.ErrClosed
		case <-c.asked.commands:
		case <-poll:
		}
	}
}

// takeCommands does not wait for long: while it hangs at a connection that is lost, nobody reaches this process.
func (c *Cluster) takeCommands(ctx context.Context) ([]Command, error) {
	ctx, cancel := context.WithTimeout(ctx, commandPoll)
	defer cancel()
	at := c.db.Now()
	rows, err := c.db.Read().ListCommands(ctx, c.Instance(), dbtype.At(at))
	var taken []Command
	for _, r := range rows {
		var n int64
		if err = c.db.Write(ctx, func(q database.Queries) (err error) {
			n, err = q.TakeCommand(ctx, new(dbtype.At(at)), r.ID)
			return err
		}); err != nil {
			break
		}
		if n == 0 {
			continue
		}
		cmd := Command{
			ID: r.ID, Instance: r.Instance, Key: thread.Key{Owner: r.Owner, Thread: r.ThreadID}, Kind: r.Kind,
			expiresAt: r.ExpiresAt.Time,
		}
		if r.Body != "" {
			cmd.Body = json.RawMessage(r.Body)
		}
		taken = append(taken, cmd)
	}
	return taken, err
}

// handle runs the handler of one command until its sender stops waiting. A panic becomes an error,
// so that other commands go on.
func (c *Cluster) handle(
	ctx context.Context, cmd Command, handle func(context.Context, Command) (json.RawMessage, error),
) (reply json.RawMessage, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmd.expiresAt.Sub(c.db.Now()))
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("command of another instance panicked", "kind", cmd.Kind, "panic", p,
				"stack", string(debug.Stack()))
			err = errors.New("internal error")
		}
	}()
	return handle(ctx, cmd)
}

func (c *Cluster) carryOut(
	ctx context.Context, cmd Command, handle func(context.Context, Command) (json.RawMessage, error),
) {
	reply, err := c.handle(ctx, cmd, handle)
	if err == nil && len(reply) > maxCommandBytes {
		err = errors.New("the answer is too large")
	}
	params := pgdb.AnswerCommandParams{ID: cmd.ID, AnsweredAt: new(dbtype.At(c.db.Now()))}
	if err != nil {
		failed := commandError(err)
		params.Code, params.Error = failed.Code, thread.CleanText(failed.Message)
	} else {
		params.Reply = thread.CleanText(string(reply))
	}
	if err := c.answer(ctx, cmd, params); err != nil {
		c.log.Warn("command of another instance not answered", "kind", cmd.Kind, "error", err)
		return
	}
	c.Answered(cmd.ID)
	c.db.TellAnswer(cmd.ID)
}

// answer saves an answer. While the database is unavailable it tries again, until nobody waits for the answer or ctx
// ends.
func (c *Cluster) answer(ctx context.Context, cmd Command, params pgdb.AnswerCommandParams) error {
	for {
		try, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		err := c.db.Write(try, func(q database.Queries) error { return q.AnswerCommand(try, params) })
		cancel()
		if err == nil || !errors.Is(c.db.Fail("", err), database.ErrUnavailable) || c.db.Now().After(cmd.expiresAt) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(answerPoll):
		}
	}
}
