package persistence

import (
	"context"
	"database/sql"
	"io/fs"

	"github.com/pressly/goose/v3"

	"voicebridge/db"
)

// migrate applies the migrations that are missing.
func migrate(ctx context.Context, dialect goose.Dialect, dir string, conn *sql.DB, opts ...goose.ProviderOption) error {
	files, err := fs.Sub(db.Migrations, "migrations/"+dir)
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(dialect, conn, files, opts...)
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}
