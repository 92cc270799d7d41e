package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"voicebridge/persistence"
	"voicebridge/persistence/privacy"
)

// privacyParts are the kinds of data of owners.
func (a *app) privacyParts() []privacy.Part {
	parts := privacy.Parts(a.store)
	if a.recordings != nil {
		parts = append(parts, a.recordings.Part())
	}
	return parts
}

// eraseCommand is the command erase.
type eraseCommand struct {
	Owner    string  `required:"" help:"Whose data: the name before the token, or sub of the JWT." placeholder:"OWNER"`
	Database *string `help:"sqlite:PATH or postgres://…" placeholder:"URL"`
}

// Run deletes everything of the owner. The server may be running; calls of the owner should have ended.
func (e *eraseCommand) Run(p *process) error {
	return p.withStore(e.Database, func(store *persistence.Store) error { return privacy.Erase(p.ctx, e.Owner, privacy.Parts(store)) })
}

// withStore opens the database that the settings name, which must exist and be up to date.
func (p *process) withStore(database *string, use func(*persistence.Store) error) (err error) {
	flags := map[string]any{}
	set(flags, "database_url", database)
	cfg, log, err := p.load(p.offline(flags))
	if err != nil {
		return err
	}
	address := cfg.Secrets.DatabaseURL.Reveal()
	// Opening the database would create its file.
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no database %s (choose another with --database or DATABASE_URL)", path)
		}
	}
	store, err := persistence.Open(p.ctx, address, persistence.Options{Logger: log, NoMigrate: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := store.Ping(p.ctx); err != nil {
		return fmt.Errorf("the database has no tables yet: %w", err)
	}
	if old, err := store.Outdated(p.ctx); err != nil {
		return err
	} else if old {
		return errors.New("an older version made the tables of the database: bring them up to date with voicebridge migrate")
	}
	return use(store)
}
