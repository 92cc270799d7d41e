package main

import (
	"errors"
	"fmt"
	"log/slog"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/persistence"
	"voicebridge/persistence/export"
	"voicebridge/persistence/privacy"
	"voicebridge/thread"
	"voicebridge/web/access"
)

// exportCommand is the command export.
type exportCommand struct {
	Thread   string  `arg:"" optional:"" help:"Id of the thread. With --owner and without it: everything of the owner but recordings, as a ZIP file."`
	Format   string  `help:"markdown, json or srt (subtitles)." enum:"markdown,json,srt" default:"markdown"`
	Owner    *string `help:"Whose thread it is: the name before the token, or sub of the JWT. Without authentication there is one local user: ${owner}." placeholder:"OWNER"`
	Database *string `help:"sqlite:PATH or postgres://…" placeholder:"URL"`
}

// Validate asks for a thread or an owner: nobody writes a ZIP file to a terminal by mistake.
func (e *exportCommand) Validate() error {
	if e.Thread == "" && e.Owner == nil {
		return errors.New("expected <thread>, or --owner for everything of an owner")
	}
	return nil
}

// Run writes the thread, or everything of the owner, to standard output. The server may be running.
func (e *exportCommand) Run(p *process) error {
	return p.withStore(e.Database, func(_ config.Config, _ *slog.Logger, store *persistence.Store) error {
		owner := access.LocalOwner
		if e.Owner != nil {
			owner = *e.Owner
		}
		out := &counted{Writer: p.stdout, shown: p.progress()}
		defer out.shown.clear()
		if e.Thread == "" {
			return privacy.Export(p.ctx, out, owner, privacy.Parts(store))
		}
		key := thread.Key{Owner: owner, Thread: e.Thread}
		thread, err := store.Thread(p.ctx, key)
		if errors.Is(err, persistence.ErrNotFound) {
			return fmt.Errorf("%s has no thread %s (--owner names another owner)", owner, e.Thread)
		}
		if err != nil {
			return err
		}
		format, _ := export.FormatOf(e.Format) // checked by the command line
		return export.Write(out, format, thread, export.Messages(p.ctx, store, key))
	})
}
