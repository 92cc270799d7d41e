// Package grants keeps what owners have been granted at MCP servers that want each owner to sign in. Whatever opens
// anything is sealed by who saves it.
package grants

import (
	"context"
	"errors"
	"fmt"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// Store keeps it in the database. It is safe for concurrent use.
type Store struct{ db database.DB }

// New returns the Store of a database.
func New(db database.DB) *Store { return &Store{db} }

// Grant returns what an owner was granted at a server, and its version; nothing if there is none.
func (s *Store) Grant(ctx context.Context, owner, server string) (sealed string, version int64, err error) {
	r, err := s.db.Read().GetMCPGrant(ctx, owner, server)
	err = s.db.Fail("read MCP grant", err)
	if errors.Is(err, database.ErrNotFound) {
		return "", 0, nil
	}
	return r.Sealed, r.Version, err
}

// SaveGrant saves what an owner has been granted, in place of what there was.
func (s *Store) SaveGrant(ctx context.Context, owner, server, sealed string) error {
	if !thread.ValidID(owner) || !thread.ValidID(server) {
		return fmt.Errorf("save MCP grant: %w", database.Invalid("owner or server"))
	}
	now := s.db.Now()
	return s.db.Fail("save MCP grant", s.db.Write(ctx, func(q database.Queries) error {
		return q.SaveMCPGrant(ctx, pgdb.SaveMCPGrantParams{
			// The clock's, so that who renews a grant that was given back and made anew does not take it for the old
			// one.
			Owner: owner, Server: server, Sealed: sealed, Version: now.UnixMicro(), Now: dbtype.At(now),
		})
	}))
}

// BeginRenewal makes the caller the only one who renews that version of a grant for so long. It returns false if
// another does so already, or has done so.
func (s *Store) BeginRenewal(
	ctx context.Context, owner, server string, version int64, lasting time.Duration,
) (begun bool, err error) {
	now := s.db.Now()
	return s.one(ctx, "begin renewal of MCP grant", func(q database.Queries) (int64, error) {
		return q.BeginMCPRenewal(ctx, pgdb.BeginMCPRenewalParams{
			Owner: owner, Server: server, Version: version, Now: dbtype.At(now), Until: dbtype.At(now.Add(lasting)),
		})
	})
}

// FinishRenewal saves what a version of a grant became. It returns false if the grant is no longer there in that
// version.
func (s *Store) FinishRenewal(
	ctx context.Context, owner, server string, version int64, sealed string,
) (saved bool, err error) {
	return s.one(ctx, "renew MCP grant", func(q database.Queries) (int64, error) {
		return q.RenewMCPGrant(ctx, pgdb.RenewMCPGrantParams{
			Owner: owner, Server: server, Version: version, Sealed: sealed, Now: dbtype.At(s.db.Now()),
		})
	})
}

// AbandonRenewal lets others renew that version of a grant.
func (s *Store) AbandonRenewal(ctx context.Context, owner, server string, version int64) error {
	return s.db.Fail("abandon renewal of MCP grant", s.db.Write(ctx, func(q database.Queries) error {
		return q.EndMCPRenewal(ctx,
			pgdb.EndMCPRenewalParams{Owner: owner, Server: server, Version: version, Now: dbtype.At(s.db.Now())})
	}))
}

// DeleteGrant forgets a grant if it has that version; zero means any. It returns false if there is none.
func (s *Store) DeleteGrant(ctx context.Context, owner, server string, version int64) (deleted bool, err error) {
	return s.one(ctx, "delete MCP grant", func(q database.Queries) (int64, error) {
		if version != 0 {
			return q.DeleteMCPGrantVersion(ctx, owner, server, version)
		}
		return q.DeleteMCPGrant(ctx, owner, server)
	})
}

// BeginSignIn saves a sign-in under the hash of its state, in place of the owner's previous one at that server. It
// returns whether there was one, which then has not come back.
func (s *Store) BeginSignIn(
	ctx context.Context, state, owner, server, sealed string, lasting time.Duration,
) (again bool, err error) {
	if !thread.ValidID(owner) || !thread.ValidID(server) || !thread.ValidID(state) {
		return false, fmt.Errorf("begin MCP sign-in: %w", database.Invalid("owner, server or state"))
	}
	now := s.db.Now()
	err = s.db.Write(ctx, func(q database.Queries) error {
		n, err := q.DeleteMCPSignInsOf(ctx, owner, server)
		if again = n > 0; err != nil {
			return err
		}
		if err := q.DeleteExpiredMCPSignIns(ctx, dbtype.At(now)); err != nil {
			return err
		}
		return q.InsertMCPSignIn(ctx, pgdb.InsertMCPSignInParams{
			State: state, Owner: owner, Server: server, Sealed: sealed, ExpiresAt: dbtype.At(now.Add(lasting)),
		})
	})
	return again, s.db.Fail("begin MCP sign-in", err)
}

// PendingSignIn returns the sign-in that has begun under the hash of a state; database.ErrNotFound if there is none, or
// no longer.
func (s *Store) PendingSignIn(ctx context.Context, state string) (owner, server, sealed string, err error) {
	r, err := s.db.Read().GetMCPSignIn(ctx, state)
	if err == nil && !r.ExpiresAt.After(s.db.Now()) {
		err = database.ErrNotFound
	}
	if err != nil {
		return "", "", "", s.db.Fail("read MCP sign-in", err)
	}
	return r.Owner, r.Server, r.Sealed, nil
}

// EndSignIn ends a sign-in, which only one caller does: for others it returns false.
func (s *Store) EndSignIn(ctx context.Context, state string) (ended bool, err error) {
	return s.one(ctx, "end MCP sign-in", func(q database.Queries) (int64, error) {
		return q.DeleteMCPSignIn(ctx, state)
	})
}

// DropSignIns drops what an owner has begun at a server.
func (s *Store) DropSignIns(ctx context.Context, owner, server string) (dropped bool, err error) {
	return s.one(ctx, "drop MCP sign-ins", func(q database.Queries) (int64, error) {
		return q.DeleteMCPSignInsOf(ctx, owner, server)
	})
}

// Client returns what this program is registered as, by the name of where; empty if it is not.
func (s *Store) Client(ctx context.Context, name string) (sealed string, err error) {
	r, err := s.db.Read().GetMCPClient(ctx, name)
	err = s.db.Fail("read MCP client", err)
	if errors.Is(err, database.ErrNotFound) {
		return "", nil
	}
	return r.Sealed, err
}

// SaveClient saves what this program is registered as, by the name of where.
func (s *Store) SaveClient(ctx context.Context, name, sealed string) error {
	return s.db.Fail("save MCP client", s.db.Write(ctx, func(q database.Queries) error {
		return q.SaveMCPClient(ctx, name, sealed, dbtype.At(s.db.Now()))
	}))
}

// one runs a change of one row, and reports whether it did change one.
func (s *Store) one(ctx context.Context, what string, change func(database.Queries) (int64, error)) (bool, error) {
	var n int64
	err := s.db.Write(ctx, func(q database.Queries) (err error) {
		n, err = change(q)
		return err
	})
	return err == nil && n > 0, s.db.Fail(what, err)
}

// EraseOwner deletes all grants of an owner, the definitions of the tools that they opened, and the sign-ins that are
// not finished.
func (s *Store) EraseOwner(ctx context.Context, owner string) error {
	return s.db.Fail("erase MCP grants", s.db.Write(ctx, func(q database.Queries) error {
		return errors.Join(
			q.DeleteMCPPinsOfOwner(ctx, owner),
			q.DeleteMCPGrantsOfOwner(ctx, owner),
			q.DeleteMCPSignInsOfOwner(ctx, owner),
		)
	}))
}
