package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/persistence"
	"voicebridge/persistence/export"
	"voicebridge/persistence/privacy"
	"voicebridge/thread"
	"voicebridge/toolkit/mcptool"
	"voicebridge/web/access"
)

// privacyParts are the kinds of data of owners.
func (a *app) privacyParts() []privacy.Part {
	parts := mcpFirst(a.tools.erase, a.store)
	if a.recordings != nil {
		parts = append(parts, a.recordings.Part())
	}
	return parts
}

// mcpFirst are the parts of the database after what MCP servers have: to give a sign-in back takes the tokens that are
// in it.
func mcpFirst(erase func(ctx context.Context, owner string) error, store *persistence.Store) []privacy.Part {
	return append([]privacy.Part{{Name: "MCP servers", Erase: erase}}, privacy.Parts(store)...)
}

// erase ends what an owner has of MCP servers at this process, and removes it with its folders.
func (t *tools) erase(ctx context.Context, owner string) error {
	if t.mcp == nil {
		return mcptool.EraseFolders(t.folder, owner)
	}
	return t.mcp.Erase(ctx, owner)
}

// eraseCommand is the command erase.
type eraseCommand struct {
	Owner    string  `required:"" help:"Whose data: the name before the token, or sub of the JWT." placeholder:"OWNER"`
	Database *string `help:"sqlite:PATH or postgres://…" placeholder:"URL"`
}

// Run deletes everything of the owner. The server may be running; calls of the owner should have ended.
func (e *eraseCommand) Run(p *process) error {
	return p.withStore(e.Database, func(cfg config.Config, log *slog.Logger, store *persistence.Store) (err error) {
		if err := readSecret(p.ctx, &cfg, store); err != nil {
			return err
		}
		t := &tools{log: log}
		failed := t.openMCP(cfg, store)
		if t.mcp != nil {
			defer func() { err = errors.Join(err, t.mcp.Close()) }()
		}
		parts := mcpFirst(func(ctx context.Context, owner string) error {
			return errors.Join(failed, t.erase(ctx, owner))
		}, store)
		recordings, err := openArchive(cfg, store, log)
		if recordings != nil {
			parts = append(parts, recordings.Part())
		}
		shown := p.progress()
		defer shown.clear()
		for i, part := range parts {
			if part.Erase == nil {
				continue
			}
			parts[i].Erase = func(ctx context.Context, owner string) error {
				shown.say("erasing %s (%d of %d)", part.Name, i+1, len(parts))
				return part.Erase(ctx, owner)
			}
		}
		return errors.Join(err, privacy.Erase(p.ctx, e.Owner, parts))
	})
}

// readSecret reads the secret that all processes of the database share, unless it is set.
func readSecret(ctx context.Context, cfg *config.Config, store *persistence.Store) error {
	if cfg.Secrets.Signing.IsSet() {
		return nil
	}
	secret, err := store.Admission.SigningSecret(ctx)
	cfg.Secrets.Signing = access.NewSecret(secret)
	return err
}

// withStore opens the database that the settings name, which must exist and be up to date.
func (p *process) withStore(
	database *string, use func(config.Config, *slog.Logger, *persistence.Store) error,
) (err error) {
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
	return use(cfg, log, store)
}

// exportCommand is the command export.
type exportCommand struct {
	Thread   string  `arg:"" optional:"" help:"Id of the thread. With --owner and without it: everything of the owner but recordings, as a ZIP file."`
	Format   string  `help:"markdown or json." enum:"markdown,json" default:"markdown"`
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
