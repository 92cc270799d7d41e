package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/toolkit/code"
	"voicebridge/toolkit/mcptool"
)

// doctorCommand is the command doctor. It takes the flags of serve: it looks at
// what such a start would find. It changes no table and needs no running server.
type doctorCommand struct {
	Settings serveCommand `embed:""`
}

// The verdicts of a finding.
const (
	fine    = "ok"
	warning = "warning" // it works, but not for all or not as one may think
	problem = "problem" // it does not work
)

// finding is one line of the report.
type finding struct {
	verdict string
	about   string
	words   string // what there is, and what to do
}

func (f finding) String() string { return f.verdict + ": " + f.about + ": " + oneLine(f.words) }

// oneLine puts a text that may come from a driver or a server on one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// databasePatience is how long a database may take to answer.
const databasePatience = 10 * time.Second

// doctor looks at one place after another.
type doctor struct {
	cfg config
	// report takes what was found, as it is found.
	report func(finding)
	// running says that a voicebridge with these settings seems to run: what it
	// holds is no problem.
	running bool
}

// Run checks everything and prints a line for each finding. The error says that
// there are problems.
func (d *doctorCommand) Run(p *process) error {
	problems := 0
	var lost error
	report := func(f finding) {
		if f.verdict == problem {
			problems++
		}
		_, err := fmt.Fprintln(p.stdout, f)
		lost = errors.Join(lost, err)
	}
	cfg, _, err := p.load(d.Settings.settings())
	if bad, ok := errors.AsType[*configError](err); ok {
		for _, wrong := range bad.problems {
			report(finding{problem, "settings", wrong.Error()})
		}
	} else if err != nil {
		report(finding{problem, "settings", err.Error()})
	} else {
		report(finding{fine, "settings", "they can be read"})
		(&doctor{cfg: cfg, report: report}).examine(p.ctx)
	}
	if err := errors.Join(lost, context.Cause(p.ctx)); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	switch problems {
	case 0:
		return nil
	case 1:
		return errors.New("there is a problem")
	default:
		return fmt.Errorf("there are %d problems", problems)
	}
}

// examine runs the checks. Those that tell whether a server runs come first.
func (d *doctor) examine(ctx context.Context) {
	for _, check := range []func(context.Context){d.database, d.listening, d.calls, d.typing, d.media, d.loopback, d.iceServers, d.microphone, d.programs, d.mcpServers} {
		if ctx.Err() != nil {
			return
		}
		check(ctx)
	}
}

func (d *doctor) say(verdict, about, format string, args ...any) {
	d.report(finding{verdict, about, fmt.Sprintf(format, args...)})
}

const aboutDatabase = "database"

func (d *doctor) database(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, databasePatience)
	defer cancel()
	address := d.cfg.Secrets.DatabaseURL.Reveal()
	path, isFile := strings.CutPrefix(address, "sqlite:")
	name := "the SQLite file " + path
	if isFile {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			d.newFile(path)
			return
		}
		if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			d.say(warning, aboutDatabase, "others on this machine may read %s, which holds what people say: chmod 600 %s", path, path)
		}
	} else if u, err := url.Parse(address); err == nil {
		name = "PostgreSQL at " + cmp.Or(u.Host, u.Query().Get("host"), "its usual place")
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
	if isFile {
		// Only one process may serve a file.
		switch err := store.Serve(ctx); {
		case errors.Is(err, persistence.ErrServed):
			d.running = true
			name += ", which a running voicebridge uses,"
		case err != nil:
			d.say(problem, aboutDatabase, "%v", err)
			return
		}
	}
	if err := store.Ping(ctx); err != nil {
		d.say(warning, aboutDatabase, "%s can be opened and has no tables yet: the first start makes them (%v)", name, err)
		return
	}
	d.say(fine, aboutDatabase, "%s can be opened and has its tables", name)
}

// newFile says whether a start could make the file of the database.
func (d *doctor) newFile(path string) {
	dir := filepath.Dir(path)
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	f, err := os.CreateTemp(dir, ".voicebridge-doctor-")
	if err != nil {
		d.say(problem, aboutDatabase, "%s is not there and cannot be made: choose a place that may be written with DATABASE_URL (%v)", path, err)
		return
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		d.say(problem, aboutDatabase, "the folder of %s does not work: %v", path, err)
		return
	}
	d.say(fine, aboutDatabase, "%s is not there yet: the first start makes it", path)
}

const aboutPrograms = "programs of the model"

// programs runs a small program in each sandbox that is switched on.
func (d *doctor) programs(ctx context.Context) {
	if !slices.Contains(d.cfg.Tools.Toolkits, toolkitCode) {
		d.say(fine, aboutPrograms, "they are switched off")
		return
	}
	sandbox, err := code.New(d.cfg.codeTools(slog.New(slog.DiscardHandler)))
	if err != nil {
		d.say(problem, aboutPrograms, "%v", err)
		return
	}
	if confinement, err := sandbox.ProbeJavaScript(ctx); err != nil {
		d.say(problem, aboutPrograms, "JavaScript does not work, and its tool is not offered: %v", err)
	} else {
		d.say(fine, aboutPrograms, "JavaScript works, in a %s", confinement)
	}
	if !d.cfg.Tools.Code.Python {
		return
	}
	if err := sandbox.ProbePython(ctx); err != nil {
		d.say(problem, aboutPrograms, "tools.code.python is set, but its tool is not offered: %v", err)
		return
	}
	d.say(fine, aboutPrograms, "Python works, in bubblewrap")
}

const aboutMCP = "MCP servers"

// mcpServers connects to each server and lists its tools, as a start does.
func (d *doctor) mcpServers(ctx context.Context) {
	path := d.cfg.mcpFile()
	if path == "" {
		d.say(fine, aboutMCP, "there is no %s, so none is used", defaultMCPFile)
		return
	}
	servers, err := mcptool.LoadConfig(path)
	if err != nil {
		d.say(problem, aboutMCP, "%v", err)
		return
	}
	open, err := mcptool.Open(ctx, servers, mcptool.Options{Version: buildVersion()})
	if err != nil {
		d.say(problem, aboutMCP, "%v", err)
		return
	}
	defer func() { _ = open.Close() }() // it has no error to tell
	list := open.Status()
	if len(list) == 0 {
		d.say(fine, aboutMCP, "%s names none that is switched on", path)
	}
	for _, s := range list {
		about := "MCP server " + s.Name
		switch {
		case !s.Connected:
			d.say(problem, about, "its tools are not offered: %s (its entry in %s may be wrong)", cmp.Or(s.Error, "it does not answer"), path)
		case s.Tools == 0:
			d.say(warning, about, "it answers and offers no tool")
		default:
			d.say(fine, about, "it answers; tools: %d", s.Tools)
		}
	}
}
