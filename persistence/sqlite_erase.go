package persistence

import (
	"context"
	"database/sql"
	"time"
)

const (
	// fewWords is how many deleted messages the search index may always forget in one piece.
	fewWords = 2000
	// mergePages is how many pages of the index are merged after a piece that was deleted.
	mergePages = 64
	// automerge is FTS5's own number of parts of the index that are merged by whoever writes.
	automerge = 4
)

// compact writes the search index anew without what was deleted. FTS5 keeps words that are
// deleted, and notes beside them that they are. Its pieces are measured in pages that it writes,
// so one in which everything was deleted would have no end: whoever deletes much asks for halves
// in between, to compact the index as soon as half of its messages are deleted. Meanwhile others who
// write merge nothing: that would take them long.
func (e *sqliteEngine) compact(ctx context.Context, half bool, stop enough) error {
	e.compacting.Lock()
	defer e.compacting.Unlock()
	var deleted int64
	if err := e.reader.QueryRowContext(ctx, "SELECT amount FROM message_index_deleted").Scan(&deleted); err != nil {
		return err
	}
	if deleted == 0 {
		return e.mergeByWriters(ctx, automerge)
	}
	if err := e.mergeByWriters(ctx, 0); err != nil {
		return err
	}
	if half {
		if due, err := e.halfDeleted(ctx, deleted); err != nil || !due {
			return err
		}
	}
	if err := e.rewrite(ctx, deleted, stop); err != nil || half {
		return err
	}
	return e.mergeByWriters(ctx, automerge)
}

// mergeByWriters sets how many parts of the index there must be for whoever writes to merge them; 0
// is never. It is kept in the database: a start after a crash sets it again.
func (e *sqliteEngine) mergeByWriters(ctx context.Context, parts int64) error {
	if e.merged != nil && *e.merged == parts {
		return nil
	}
	_, err := e.writer.ExecContext(ctx, "INSERT INTO message_index (message_index, rank) VALUES ('automerge', ?)", parts)
	if err == nil {
		e.merged = &parts
	}
	return err
}

// halfDeleted does after a deleted piece what others would have to do when they write, and reports
// whether half of the index is deleted.
func (e *sqliteEngine) halfDeleted(ctx context.Context, deleted int64) (bool, error) {
	if err := e.checkpoint(ctx); err != nil {
		return false, err
	}
	if _, _, err := e.merge(ctx, false, mergePages); err != nil {
		return false, err
	}
	if e.indexed == 0 {
		if err := e.reader.QueryRowContext(ctx, "SELECT count(*) FROM message_numbers").Scan(&e.indexed); err != nil {
			return false, err
		}
		e.indexed += deleted
	}
	return deleted >= max(fewWords, e.indexed/2), nil
}

// rewrite writes the index anew, and notes that so many messages are no longer in it.
func (e *sqliteEngine) rewrite(ctx context.Context, deleted int64, stop enough) error {
	e.indexed = 0 // it is counted again
	for first, pages := true, int64(16); ; first = false {
		began, done, err := e.merge(ctx, first, pages)
		if err != nil {
			return err
		}
		if done {
			// What was deleted meanwhile is for the next time.
			_, err := e.writer.ExecContext(ctx, "UPDATE message_index_deleted SET amount = amount - ?", deleted)
			return err
		}
		took := time.Since(began)
		pages = nextPiece(pages, took)
		if stop(took) {
			return errMore
		}
	}
}

// merge writes some pages of the index anew and says when it began to, and whether that
// was the end. The first one includes all pages that there are.
func (e *sqliteEngine) merge(ctx context.Context, first bool, pages int64) (began time.Time, done bool, err error) {
	tx, err := e.writer.BeginTx(ctx, nil)
	if err != nil {
		return began, false, err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	began = time.Now()
	if first {
		pages = -pages
	}
	before, err := changes(ctx, tx)
	if err == nil {
		_, err = tx.ExecContext(ctx, "INSERT INTO message_index (message_index, rank) VALUES ('merge', ?)", pages)
	}
	if err != nil {
		return began, false, err
	}
	after, err := changes(ctx, tx)
	if err != nil {
		return began, false, err
	}
	return began, after-before < 2, tx.Commit() // as FTS5's documentation tells the end
}

func changes(ctx context.Context, tx *sql.Tx) (n int64, err error) {
	err = tx.QueryRowContext(ctx, "SELECT total_changes()").Scan(&n)
	return n, err
}

// scrub removes what was deleted from the write-ahead log, too. In the file itself
// secure_delete has written zeros over it. It is errMore while somebody reads what the log
// still has.
func (e *sqliteEngine) scrub(ctx context.Context) error {
	// Most of it goes beside those who write.
	if err := e.checkpoint(ctx); err != nil {
		return err
	}
	conn, err := e.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	// Nobody shall wait long for those who read.
	if _, err := conn.ExecContext(ctx, "PRAGMA busy_timeout(20)"); err != nil {
		return err
	}
	var busy bool
	var frames, moved int64
	err = conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved)
	if _, restored := conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA busy_timeout(5000)"); err == nil {
		err = restored
	}
	if err == nil && busy {
		err = errMore
	}
	return err
}

// checkpoint copies the write-ahead log to the file, as far as that keeps nobody waiting.
func (e *sqliteEngine) checkpoint(ctx context.Context) error {
	_, err := e.reader.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
	return err
}
