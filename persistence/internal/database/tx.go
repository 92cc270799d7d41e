package database

import (
	"context"
	"fmt"

	"voicebridge/thread"
)

// Tx is a transaction that writes to one thread. After an error every further write returns the same error, and nothing
// is saved.
type Tx struct {
	DB
	Ctx context.Context // of the transaction
	Q   Queries
	Key thread.Key
	// For is the process on whose behalf it writes, mostly this one.
	For string
	// err is the first error.
	err error
}

// Begin runs fn in a transaction that writes to one thread, which is rolled back by an error of fn or of any write in
// it, whatever fn returns.
func Begin(ctx context.Context, db DB, key thread.Key, fn func(*Tx) error) error {
	if err := CheckKey(key); err != nil {
		return fmt.Errorf("write thread: %w", err)
	}
	var tx *Tx
	err := db.Write(ctx, func(q Queries) error {
		tx = NewTx(ctx, db, q, key)
		if err := fn(tx); err != nil {
			return err
		}
		return tx.err
	})
	if err != nil && tx != nil &&
		err == tx.err { //nolint:errorlint // the very same error, which already says what was done
		return err
	}
	return db.Fail("write thread", err)
}

// NewTx returns what writes to one thread in a transaction that Begin has not begun.
func NewTx(ctx context.Context, db DB, q Queries, key thread.Key) *Tx {
	return &Tx{DB: db, Ctx: ctx, Q: q, Key: key, For: db.Instance()}
}

// Err returns the error that the transaction has, if any.
func (tx *Tx) Err() error { return tx.err }

// Do runs one write.
func (tx *Tx) Do(what string, write func() error) error {
	if tx.err == nil {
		if err := write(); err != nil {
			tx.err = tx.Fail(what, err)
		}
	}
	return tx.err
}

// Lock locks the thread's row until the end of the transaction. Whoever changes other rows of the thread that another
// process may change, too, does this first, so that no two wait for each other.
func (tx *Tx) Lock() error {
	_, err := tx.Q.LockThread(tx.Ctx, tx.Key.Thread, tx.Key.Owner)
	return err
}

// ChangeOne runs a change of a thread that must affect one row.
func ChangeOne(ctx context.Context, db DB, key thread.Key, change func(Queries) (int64, error)) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	return db.Write(ctx, func(q Queries) error {
		n, err := change(q)
		if err == nil && n == 0 {
			err = ErrNotFound
		}
		return err
	})
}

// CheckKey returns ErrNotFound if the key cannot name a thread: the database's error would be less clear.
func CheckKey(k thread.Key) error {
	if !thread.ValidID(k.Owner) || !thread.ValidID(k.Thread) {
		return ErrNotFound
	}
	return nil
}
