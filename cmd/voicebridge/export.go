package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"voicebridge/persistence"
	"voicebridge/persistence/export"
	"voicebridge/thread"
)

// exportCommand is the command export.
type exportCommand struct {
	Thread   string  `arg:"" help:"Id of the thread."`
	Format   string  `help:"markdown, json or srt (subtitles)." enum:"markdown,json,srt" default:"markdown"`
	Owner    string  `help:"Whose thread it is: the name before the token, or sub of the JWT. Without authentication there is one local user." default:"${owner}" placeholder:"OWNER"`
	Database *string `help:"sqlite:PATH or postgres://…" placeholder:"URL"`
}

// Run writes the thread to standard output. The server may be running.
func (e *exportCommand) Run(p *process) (err error) {
	flags := map[string]any{}
	set(flags, "database_url", e.Database)
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
	key := thread.Key{Owner: e.Owner, Thread: e.Thread}
	thread, err := store.Thread(p.ctx, key)
	if errors.Is(err, persistence.ErrNotFound) {
		return fmt.Errorf("%s has no thread %s (--owner names another owner)", e.Owner, e.Thread)
	}
	if err != nil {
		return err
	}
	format, _ := export.FormatOf(e.Format) // checked by the command line
	return export.Write(p.stdout, format, thread, export.Messages(p.ctx, store, key))
}
