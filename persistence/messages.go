package persistence

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

const (
	defaultMessages = 100
	maxMessages     = 1000
	// MaxReplay is how many messages Store.Replay reads at most.
	MaxReplay = 6000
)

// Message reads one message.
func (s *Store) Message(ctx context.Context, key thread.Key, id string) (thread.Message, error) {
	if err := checkKey(key); err != nil || !thread.ValidID(id) {
		return thread.Message{}, fmt.Errorf("read message: %w", ErrNotFound)
	}
	row, err := s.eng.read().GetMessage(ctx, id, key.Thread, key.Owner)
	if err != nil {
		return thread.Message{}, s.fail("read message", err)
	}
	found, err := wholes(ctx, s.eng.read(), key, []pgdb.Message{row})
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return thread.Message{}, s.fail("read message", err)
	}
	return found[0], nil
}

// LastMessage reads the last message of the thread; ErrNotFound if it has none.
func (s *Store) LastMessage(ctx context.Context, key thread.Key) (thread.Message, error) {
	if err := checkKey(key); err != nil {
		return thread.Message{}, fmt.Errorf("read last message: %w", ErrNotFound)
	}
	seq, err := s.eng.read().LastMessage(ctx, key.Thread, key.Owner)
	if err != nil {
		return thread.Message{}, s.fail("read last message", err)
	}
	found, err := s.Messages(ctx, key, seq-1, 1)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("read last message: %w", ErrNotFound)
	}
	if err != nil {
		return thread.Message{}, err
	}
	return found[0], nil
}

// Messages reads the messages whose Seq is greater than after, in order. limit is 1 to 1000; zero
// means 100.
func (s *Store) Messages(ctx context.Context, key thread.Key, after int64, limit int) ([]thread.Message, error) {
	limit = cmp.Or(limit, defaultMessages)
	if limit < 1 || limit > maxMessages {
		return nil, fmt.Errorf("list messages: %w", Invalid("limit %d: 1 to %d", limit, maxMessages))
	}
	if err := checkKey(key); err != nil {
		return nil, fmt.Errorf("list messages: %w", err)
	}
	rows, err := s.eng.read().ListMessages(ctx, pgdb.ListMessagesParams{
		ThreadID: key.Thread, Owner: key.Owner, AfterSeq: after, MaxRows: int64(limit),
	})
	return s.messages(ctx, key, rows, err)
}

// CallMessages is Messages for those that belong to a call.
func (s *Store) CallMessages(
	ctx context.Context, key thread.Key, callID string, after int64, limit int,
) ([]thread.Message, error) {
	if limit < 1 || limit > maxMessages {
		return nil, fmt.Errorf("list messages of call: %w", Invalid("limit %d: 1 to %d", limit, maxMessages))
	}
	if err := checkKey(key); err != nil {
		return nil, fmt.Errorf("list messages of call: %w", err)
	}
	rows, err := s.eng.read().ListCallMessages(ctx, pgdb.ListCallMessagesParams{
		ThreadID: key.Thread, Owner: key.Owner, CallID: callID, AfterSeq: after, MaxRows: int64(limit),
	})
	return s.messages(ctx, key, rows, err)
}

// Replay reads the last n messages since the last reset, oldest first, without those in progress. n
// is at most MaxReplay.
func (s *Store) Replay(ctx context.Context, key thread.Key, n int) ([]thread.Message, error) {
	if n < 0 || n > MaxReplay {
		return nil, fmt.Errorf("replay messages: %w", Invalid("number %d: 0 to %d", n, MaxReplay))
	}
	if err := checkKey(key); err != nil {
		return nil, fmt.Errorf("replay messages: %w", err)
	}
	rows, err := s.eng.read().ListReplay(ctx, key.Thread, key.Owner, int64(n))
	slices.Reverse(rows)
	return s.messages(ctx, key, rows, err)
}

// Instructions reads the last n system messages with numbers less than before since the last reset,
// oldest first. n is at most 1000.
func (s *Store) Instructions(ctx context.Context, key thread.Key, before int64, n int) ([]thread.Message, error) {
	if n < 0 || n > maxMessages {
		return nil, fmt.Errorf("read instructions: %w", Invalid("number %d: 0 to %d", n, maxMessages))
	}
	if err := checkKey(key); err != nil {
		return nil, fmt.Errorf("read instructions: %w", err)
	}
	rows, err := s.eng.read().ListInstructions(ctx, pgdb.ListInstructionsParams{
		ThreadID: key.Thread, Owner: key.Owner, BeforeSeq: before, MaxRows: int64(n),
	})
	slices.Reverse(rows)
	return s.messages(ctx, key, rows, err)
}

// messages converts rows of the thread. If there are none it checks that the thread exists.
func (s *Store) messages(
	ctx context.Context, key thread.Key, rows []pgdb.Message, err error,
) ([]thread.Message, error) {
	if err == nil && len(rows) == 0 {
		_, err = s.thread(ctx, key)
	}
	if err != nil {
		return nil, s.fail("list messages", err)
	}
	messages, err := wholes(ctx, s.eng.read(), key, rows)
	return messages, s.fail("list messages", err)
}
