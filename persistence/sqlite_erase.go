package persistence

import (
	"context"
	"database/sql"
	"time"
)

const (
	// fewMessages is how many deleted messages the search index always removes in one piece.
	fewMessages = 2000
	// mergePages is how many pages of the index are merged after each deleted piece.
	mergePages = 64
	// automerge is how many segments of the index make a writer merge them. With FTS5's default, 4,
	// writers take 8 to 13 % longer; with 12 a search of long messages takes half as long again.
	automerge = 8
)

// compact rewrites the search index without the deleted words, which FTS5 otherwise keeps and only
// marks. A piece of this work is measured in pages written, so a piece in which everything is deleted
// would have no end. Therefore whoever deletes much calls compact with half in between: it rewrites
// the index as soon as half of its messages are deleted. Meanwhile other writers merge nothing,
// because that would take them long.
func (e *sqliteEngine) compact(ctx context.Context, half bool, stop stopFunc) error {
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

// mergeByWriters sets how many segments of the index make a writer merge them; 0 means never. The
// database keeps the value, so a start after a crash sets it again.
func (e *sqliteEngine) mergeByWriters(ctx context.Context, parts int64) error {
	if e.merged != nil && *e.merged == parts {
		return nil
	}
	_, err := e.writer.ExecContext(ctx, "INSERT INTO message_index (message_index, rank) VALUES ('automerge', ?)",
		parts)
	if err == nil {
		e.merged = &parts
	}
	return err
}

// halfDeleted does what other writers would otherwise have to do after a deleted piece, and reports
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
	return deleted >= max(fewMessages, e.indexed/2), nil
}

// rewrite rewrites the index, and records that the deleted messages are no longer in it.
func (e *sqliteEngine) rewrite(ctx context.Context, deleted int64, stop stopFunc) error {
	e.indexed = 0 // to be counted again
	for first, pages := true, int64(16); ; first = false {
		began, done, err := e.merge(ctx, first, pages)
		if err != nil {
			return err
		}
		if done {
			// What was deleted meanwhile is left to the next time.
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

// merge rewrites some pages of the index, and returns when it began and whether the index is done.
// The first call includes all existing pages.
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
	return began, after-before < 2, tx.Commit() // the end, according to FTS5's documentation
}

func changes(ctx context.Context, tx *sql.Tx) (n int64, err error) {
	err = tx.QueryRowContext(ctx, "SELECT total_changes()").Scan(&n)
	return n, err
}

// scrub removes deleted data from the write-ahead log; in the database file, secure_delete has
// overwritten it with zeros. It returns errMore while somebody is reading from the log.
func (e *sqliteEngine) scrub(ctx context.Context) error {
	// Most of the log can be copied without blocking writers.
	if err := e.checkpoint(ctx); err != nil {
		return err
	}
	conn, err := e.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	// Writers must not wait long for readers.
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

// checkpoint copies the write-ahead log to the file, as far as possible without blocking anybody.
func (e *sqliteEngine) checkpoint(ctx context.Context) error {
	_, err := e.reader.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
	return err
}
