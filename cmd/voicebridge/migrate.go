package main

import (
	"fmt"

	"voicebridge/persistence"
)

// migrateCommand is the command migrate.
type migrateCommand struct {
	Database *string `help:"sqlite:PATH or postgres://…" placeholder:"URL"`
}

// Run brings the tables up to date.
func (m *migrateCommand) Run(p *process) error {
	flags := map[string]any{}
	set(flags, "database_url", m.Database)
	cfg, log, err := p.load(p.offline(flags))
	if err != nil {
		return err
	}
	shown := p.progress()
	options := persistence.Options{Logger: log, OnMigration: func(name string, number, of int) {
		shown.say("applying %s (%d of %d)", name, number, of)
	}}
	err = persistence.Migrate(p.ctx, cfg.Secrets.DatabaseURL.Reveal(), options)
	shown.clear()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.stdout, "The database is up to date.")
	return err
}
