package persistence

import (
	"context"
	"database/sql"
	"io/fs"

	"github.com/pressly/goose/v3"

	"voicebridge/db"
)

// migrations returns the migrations of an engine.
func migrations(dialect goose.Dialect, dir string, conn *sql.DB, opts ...goose.ProviderOption) (*goose.Provider, error) {
	files, err := fs.Sub(db.Migrations, "migrations/"+dir)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(dialect, conn, files, opts...)
}

// migrate applies the migrations that are missing.
func migrate(ctx context.Context, dialect goose.Dialect, dir string, conn *sql.DB, opts ...goose.ProviderOption) error {
	p, err := migrations(dialect, dir, conn, opts...)
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// age reports whether migrations are missing from a database that has tables, and whether it has some that this version of
// the program does not know.
func age(ctx context.Context, dialect goose.Dialect, dir string, conn *sql.DB) (older, newer bool, err error) {
	p, err := migrations(dialect, dir, conn)
	if err != nil {
		return false, false, err
	}
	has, known, err := p.GetVersions(ctx)
	if err != nil {
		return false, false, err
	}
	older, err = p.HasPending(ctx)
	return older, has > known, err
}
