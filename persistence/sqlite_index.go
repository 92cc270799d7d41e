package persistence

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

const (
	// indexEvery is how often a serving process looks for finished messages that are not in the
	// search index. A group of them takes little more than half the processor time that they take
	// one by one, so they wait for a pause in which no more are finished,
	indexEvery = 5 * time.Second
	// manyUnindexed or until there are so many, because meanwhile a search reads all of them.
	manyUnindexed = 500
)

// keepIndexing adds finished messages to the search index until ctx ends.
func (w sweeper) keepIndexing(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	var waiting int64 // at the last look
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		n, err := w.s.eng.unindexed(ctx)
		if n > 0 && (n == waiting || n >= manyUnindexed) {
			err = w.s.eng.index(ctx, halfOf(ctx))
			n = 0
		}
		if err != nil && ctx.Err() == nil {
			w.s.log.Warn("finished messages are not in the search index yet", "error", err)
		}
		waiting = n
		next.Reset(indexEvery)
	}
}

// unindexed counts the finished messages that are not in the search index.
func (e *sqliteEngine) unindexed(ctx context.Context) (n int64, err error) {
	err = e.reader.QueryRowContext(ctx, "SELECT count(*) FROM unindexed_messages").Scan(&n)
	return n, err
}

// index adds finished messages to the search index, in pieces, until all are in it or stop says to
// stop.
func (e *sqliteEngine) index(ctx context.Context, stop stopFunc) error {
	for {
		size := max(e.indexing.Load(), 1)
		began, done, err := e.indexPiece(ctx, size)
		if err != nil || done {
			return err
		}
		took := time.Since(began)
		e.indexing.Store(nextPiece(size, took))
		if stop(took) {
			return nil
		}
	}
}

// indexPiece adds about size messages to the search index in one transaction. It returns when that
// began, and whether nothing was left to add.
func (e *sqliteEngine) indexPiece(ctx context.Context, size int64) (began time.Time, done bool, err error) {
	var thread, message string
	err = e.reader.QueryRowContext(ctx, lastOfPiece, size).Scan(&thread, &message)
	if errors.Is(err, sql.ErrNoRows) {
		return began, true, nil
	}
	if err != nil {
		return began, false, err
	}
	tx, err := e.writer.BeginTx(ctx, nil)
	if err != nil {
		return began, false, err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	began = time.Now()
	for _, statement := range indexUpTo {
		if _, err := tx.ExecContext(ctx, statement, thread, message); err != nil {
			return began, false, err
		}
	}
	return began, false, tx.Commit()
}

// lastOfPiece finds the last message of a piece.
const lastOfPiece = `SELECT thread_id, message_id FROM (
	SELECT thread_id, message_id FROM unindexed_messages ORDER BY thread_id, message_id LIMIT ?
) ORDER BY thread_id DESC, message_id DESC LIMIT 1`

// indexUpTo adds what is not in the search index, up to a thread and a message. Numbers of a thread
// follow each other, so that one thread can be searched, and the next one with a word be found.
var indexUpTo = []string{
	`INSERT INTO thread_numbers (thread_id)
	SELECT DISTINCT thread_id FROM unindexed_messages WHERE (thread_id, message_id) <= (?1, ?2)
	ON CONFLICT (thread_id) DO NOTHING`,
	`INSERT INTO message_numbers (number, message_id)
	SELECT coalesce((
		SELECT max(n.number) FROM message_numbers AS n
		WHERE n.number BETWEEN t.number << 32 AND (t.number << 32) + 4294967295
	), t.number << 32) + row_number() OVER (PARTITION BY m.thread_id ORDER BY m.seq), m.id
	FROM unindexed_messages AS u
	CROSS JOIN thread_numbers AS t ON t.thread_id = u.thread_id
	CROSS JOIN messages AS m ON m.id = u.message_id
	WHERE (u.thread_id, u.message_id) <= (?1, ?2)`,
	`INSERT INTO message_index (rowid, words)
	SELECT n.number, m.search_text FROM unindexed_messages AS u
	CROSS JOIN message_numbers AS n ON n.message_id = u.message_id
	CROSS JOIN messages AS m ON m.id = u.message_id
	WHERE (u.thread_id, u.message_id) <= (?1, ?2)
	ORDER BY n.number`,
	`DELETE FROM unindexed_messages WHERE (thread_id, message_id) <= (?1, ?2)`,
}
