package doctor

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"voicebridge/persistence"
)

// databaseTimeout is how long the database may take to answer.
const databaseTimeout = 10 * time.Second

const aboutDatabase = "database"

func (d *doctor) database(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	address := d.cfg.Secrets.DatabaseURL.Reveal()
	path, isFile := strings.CutPrefix(address, "sqlite:")
	name := "the SQLite file " + path
	if isFile {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			d.newFile(path)
			return
		}
	} else {
		if u, err := url.Parse(address); err == nil {
			name = "PostgreSQL at " + cmp.Or(u.Host, u.Query().Get("host"), "its default address")
		}
		d.spool()
	}
	store, err := persistence.Open(ctx, address, persistence.Options{NoMigrate: true})
	if err != nil {
		d.say(problem, aboutDatabase, "%v", err)
		return
	}
	defer func() {
		if err := store.Close(); err != nil {
			d.say(problem, aboutDatabase, "%v", err)
		}
	}()
	// Only one process may serve a file. Without its lock file none does, and one made here, by root for example, could
	// keep the service out.
	if _, err := os.Stat(path + ".lock"); isFile && err == nil {
		switch err := store.Lock(); {
		case errors.Is(err, persistence.ErrServed):
			d.running = true
			name += ", which a running voicebridge uses,"
		case err != nil:
			d.say(problem, aboutDatabase, "%v", err)
			return
		}
	}
	if store.Pooled() {
		d.say(warning, aboutDatabase,
			"%s is behind a pooler, such as PgBouncer: that works, but changes by other processes are polled twice a second, "+
				"because no notifications come through it; connect to the server itself if you can", name)
	}
	if err := store.Ping(ctx); err != nil {
		d.say(warning, aboutDatabase, "%s can be opened but has no tables yet: the first start creates them (%v)", name, err)
		return
	}
	// Only now it is certain that the file is a database of ours.
	if info, err := os.Stat(path); isFile && err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		d.say(warning, aboutDatabase,
			"other users of this machine can read %s, which holds conversations: chmod 600 %s", path, path)
	}
	switch outdated, err := store.Outdated(ctx); {
	case err != nil:
		d.say(problem, aboutDatabase, "%s: %v", name, err)
	case outdated:
		d.say(warning, aboutDatabase,
			"%s can be opened, but an older version made its tables: the next start, or voicebridge migrate, brings them up "+
				"to date", name)
	default:
		d.say(fine, aboutDatabase, "%s can be opened and has its tables", name)
	}
}

// spool reports whether what is said while PostgreSQL is away could be kept in a file. SQLite's is beside
// the database.
func (d *doctor) spool() {
	folder := filepath.Join("data", "spool")
	if err := canWrite(folder); err != nil {
		d.say(warning, aboutDatabase,
			"the folder %s in the working folder cannot be written, so what is said while the database is away is kept in "+
				"memory only (%v)", folder, err)
	}
}

// newFile reports whether a start could create the database file.
func (d *doctor) newFile(path string) {
	if err := canWrite(filepath.Dir(path)); err != nil {
		d.say(problem, aboutDatabase,
			"%s does not exist and cannot be created: choose another path with DATABASE_URL (%v)", path, err)
		return
	}
	d.say(fine, aboutDatabase, "%s does not exist yet: the first start creates it", path)
}

// canWrite returns why a folder cannot be written, or created if it does not exist; nil if it can.
func canWrite(folder string) error {
	for {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) || filepath.Dir(folder) == folder {
			break
		}
		folder = filepath.Dir(folder)
	}
	f, err := os.CreateTemp(folder, ".voicebridge-doctor-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
