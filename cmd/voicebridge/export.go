package main

import (
	"errors"
	"fmt"

	"voicebridge/persistence"
	"voicebridge/persistence/export"
	"voicebridge/persistence/privacy"
	"voicebridge/thread"
)

// exportCommand is the command export.
type exportCommand struct {
	Thread   string  `arg:"" optional:"" help:"Id of the thread. Without it: everything of the owner but recordings, as a ZIP file."`
	Format   string  `help:"markdown, json or srt (subtitles)." enum:"markdown,json,srt" default:"markdown"`
	Owner    string  `help:"Whose thread it is: the name before the token, or sub of the JWT. Without authentication there is one local user." default:"${owner}" placeholder:"OWNER"`
	Database *string `help:"sqlite:PATH or postgres://…" placeholder:"URL"`
}

// Run writes the thread, or everything of the owner, to standard output. The server may be running.
func (e *exportCommand) Run(p *process) error {
	return p.withStore(e.Database, func(store *persistence.Store) error {
		if e.Thread == "" {
			return privacy.Export(p.ctx, p.stdout, e.Owner, privacy.Parts(store))
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
	})
}
