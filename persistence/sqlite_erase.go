package persistence

import (
	"context"
	"database/sql"
	"time"
)

// fewWords is how many deleted messages the search index may always forget in one piece.
const fewWords = 2000

// compact writes the search index anew without what was deleted. FTS5 keeps words that are
// deleted, and notes beside them that they are. Its pieces are measured in pages that it writes,
// so one in which everything was deleted would have no end: whoever deletes much asks for halves
// in between, to compact the index as soon as half of its messages are deleted.
func (e *sqliteEngine) compact(ctx context.Context, half bool, stop enough) error {
	var deleted int64
	if err := e.reader.QueryRowContext(ctx, "SELECT amount FROM message_index_deleted").Scan(&deleted); err != nil || deleted == 0 {
		return err
	}
	if half {
		// The log goes into the file here, beside those who write, and not when one of them commits.
		if err := e.checkpoint(ctx); err != nil {
			return err
		}
		if e.indexed == 0 {
			if err := e.reader.QueryRowContext(ctx, "SELECT count(*) FROM message_numbers").Scan(&e.indexed); err != nil {
				return err
			}
			e.indexed += deleted
		}
		if deleted < max(fewWords, e.indexed/2) {
			return nil
		}
	}
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
