package persistence

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// relayEvery is how often notes are read from the table where notifications do not arrive.
	relayEvery = pollFast
	// relayGap is how long an instance may read none and still miss none: half of the time that
	// they stay.
	relayGap = 30 * time.Second
	// relayRows is how many notes are read at a time.
	relayRows = 1000
)

// follow begins to receive the notes of other instances. They learn of this one first, while it
// finds out whether notifications arrive.
func (e *postgresEngine) follow(ctx context.Context, l *lease, listen bool) error {
	e.lease.Store(l)
	e.relaying.Store(e.pooled || !listen)
	e.outbox.put(note{Type: noteShards})
	if listen {
		conn, err := e.listen(ctx)
		if err == nil {
			e.relaying.Store(false)
			e.running.Go(func() { e.keepFollowing(e.life, conn) })
			return nil
		}
		if !errors.Is(err, errNoNotes) {
			return err
		}
	}
	var last int64 // what is in the table now is old
	if err := e.pool.QueryRow(ctx, "SELECT coalesce(max(id), 0) FROM notes").Scan(&last); err != nil {
		return err
	}
	e.relaying.Store(true)
	e.running.Go(func() { e.keepReading(e.life, last) })
	return errNoNotes
}

// keepReading passes on the notes after the number last until ctx ends. Other instances learn that this
// one does so.
func (e *postgresEngine) keepReading(ctx context.Context, last int64) {
	tick := time.Tick(relayEvery)
	var told shardSet
	var known string // the id that others know
	readAt, failed := time.Now(), false
	for {
		var err error
		if id, watched := e.lease.Load().id(), e.hub.watchedShards(); id != known || watched.minus(told) != 0 {
			if err = e.tellShards(ctx, watched); err == nil {
				known, told = id, watched
			}
		}
		if err == nil {
			last, err = e.readNotes(ctx, last)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failed:
			e.log.Warn("notes of other instances not read", "error", err)
		case err == nil && time.Since(readAt) > relayGap:
			e.hub.hintAll()
			signal(e.hub.commands)
		}
		if failed = err != nil; !failed {
			readAt = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-e.hub.shards:
		case <-tick:
		}
	}
}

// readNotes passes on the notes after a number, and returns the number of the last one.
func (e *postgresEngine) readNotes(ctx context.Context, last int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	for {
		rows, err := e.reads.Query(ctx, "SELECT id, payload FROM notes WHERE id > $1 ORDER BY id LIMIT $2", last, int64(relayRows))
		if err != nil {
			return last, err
		}
		var payload string
		read := 0
		_, err = pgx.ForEachRow(rows, []any{&last, &payload}, func() error {
			read++
			e.handleNote(payload)
			return nil
		})
		if err != nil || read < relayRows {
			return last, err
		}
	}
}
