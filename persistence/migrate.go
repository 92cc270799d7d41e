package persistence

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

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

// numbered is the version of the tables of the last commit that was given out before there was a first migration. They
// are brought up to that one's, as the migrations between the two did.
const numbered = 27

// upgradeNumbered makes what the first migration makes of tables with the version numbered, all or nothing. Whoever
// comes second, beside another process, finds it done.
func upgradeNumbered(ctx context.Context, dir string, first int64, conn *sql.DB) error {
	file := fmt.Sprintf("migrations/%s/%05d_tables.sql", dir, first)
	tables, err := fs.ReadFile(db.Migrations, file)
	if err != nil {
		return err
	}
	_, view, found := strings.Cut(string(tables), "\nCREATE VIEW conversation_transcript AS")
	view, _, ended := strings.Cut(view, ";\n")
	if !found || !ended {
		return fmt.Errorf("%s has no view conversation_transcript", file)
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if dir == "postgres" {
		if _, err := tx.ExecContext(ctx, "LOCK TABLE goose_db_version IN EXCLUSIVE MODE"); err != nil {
			return err
		}
	}
	var has int64
	if err := tx.QueryRowContext(ctx, "SELECT max(version_id) FROM goose_db_version").Scan(&has); err != nil ||
		has != numbered {
		return err
	}
	for _, change := range []string{
		"ALTER TABLE responses ADD COLUMN kind text NOT NULL DEFAULT 'response'",
		"UPDATE responses SET kind = 'title', status_reason = '' WHERE status_reason = 'title' AND call_id = '' " +
			"AND message_id = ''",
		"UPDATE responses SET kind = 'transcription' WHERE call_id <> '' AND message_id IN (SELECT m.id FROM " +
			"messages AS m WHERE m.role = 'user')",
		"ALTER TABLE calls ADD COLUMN place bigint NOT NULL DEFAULT 0",
		"DROP VIEW conversation_transcript",
		"CREATE VIEW conversation_transcript AS" + view,
		fmt.Sprintf("INSERT INTO goose_db_version (version_id, is_applied) VALUES (%d, true)", first),
	} {
		if _, err := tx.ExecContext(ctx, change); err != nil {
			return fmt.Errorf("%.40s…: %w", change, err)
		}
	}
	return tx.Commit()
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
	if has, _, err := p.GetVersions(ctx); err != nil {
		return err
	} else if has == numbered {
		if err := upgradeNumbered(ctx, dir, p.ListSources()[0].Version, conn); err != nil {
			return fmt.Errorf("upgrade tables of version %d: %w", numbered, err)
		}
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
	if first := p.ListSources()[0].Version; 0 < has && has < first && has != numbered {
		return false, fmt.Errorf("its tables have version %d, and this program begins with %d: run voicebridge "+
			"migrate of the last commit before version 0.1.0 (5eb90571) first", has, first)
	}
	if has > latest {
		return false, fmt.Errorf("its tables have version %d, and this program knows none after %d: start the "+
			"newer voicebridge that made them, or restore a copy of the database from before it", has, latest)
	}
	return has < latest, nil
}
