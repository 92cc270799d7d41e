package persistence

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/pressly/goose/v3"

	"voicebridge/db"
)

// migrations returns the migrations of an engine.
func migrations(
	dialect goose.Dialect, dir string, conn *sql.DB, opts ...goose.ProviderOption,
) (*goose.Provider, error) {
	files, err := fs.Sub(db.Migrations, "migrations/"+dir)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(dialect, conn, files, opts...)
}

// onMigration is called before a migration is applied, with its name, its number among those that are missing, and
// theirs.
type onMigration = func(name string, number, of int)

// migrate applies the migrations that are missing. Tables that outdated refuses stay as they are.
func migrate(
	ctx context.Context, begin onMigration, dialect goose.Dialect, dir string, conn *sql.DB,
	opts ...goose.ProviderOption,
) error {
	if stale, err := outdated(ctx, dialect, dir, conn); err != nil || !stale {
		return err
	}
	p, err := migrations(dialect, dir, conn, opts...)
	if err != nil {
		return err
	}
	if begin == nil {
		_, err = p.Up(ctx)
		return err
	}
	has, _, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(p.ListSources(), func(m *goose.Source) bool { return m.Version <= has })
	for i, m := range missing {
		begin(path.Base(m.Path), i+1, len(missing))
		if _, err := p.UpTo(ctx, m.Version); err != nil {
			return err
		}
	}
	return nil
}

// outdated reports whether migrations are missing. Tables from before the first one, and those of a newer version of
// the program, are an error that says what to do.
func outdated(ctx context.Context, dialect goose.Dialect, dir string, conn *sql.DB) (bool, error) {
	p, err := migrations(dialect, dir, conn)
	if err != nil {
		return false, err
	}
	has, latest, err := p.GetVersions(ctx)
	if err != nil {
		return false, err
	}
	// The first migration has the number of the last one before the first release, so that what was up to date then
	// counts as having it.
	if first := p.ListSources()[0].Version; 0 < has && has < first {
		return false, fmt.Errorf("its tables have version %d, and this program begins with %d: run voicebridge "+
			"migrate of the last commit before version 0.1.0 (5eb90571) first", has, first)
	}
	if has > latest {
		return false, fmt.Errorf("its tables have version %d, and this program knows none after %d: start the "+
			"newer voicebridge that made them, or restore a copy of the database from before it", has, latest)
	}
	return has < latest, nil
}
