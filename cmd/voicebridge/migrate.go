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
	if err := persistence.Migrate(p.ctx, cfg.Secrets.DatabaseURL.Reveal(), log); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.stdout, "The database is up to date.")
	return err
}
