package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"voicebridge/cmd/voicebridge/internal/config"
)

// version is set by the linker for releases.
var version = ""

func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}

// process is a command's view of the process in which it runs.
type process struct {
	ctx     context.Context
	flags   globalFlags
	environ []string
	stdout  io.Writer
	stderr  io.Writer
}

// globalFlags are the flags of every command. Flags that are settings are pointers: nil leaves the
// setting to the environment, the file and the defaults.
type globalFlags struct {
	Quiet     bool    `short:"q" help:"Do not say how far long work is."`
	Config    string  `help:"Settings file (environment VOICEBRIDGE_CONFIG; voicebridge.yaml if it exists)." placeholder:"FILE"`
	LogLevel  *string `help:"debug, info, warn or error." placeholder:"LEVEL"`
	LogFormat *string `help:"text or json." placeholder:"FORMAT"`
}

// set records the value of a flag under the key that it sets, if the flag was given.
func set[T any](out map[string]any, key string, value *T) {
	if value != nil {
		out[key] = *value
	}
}

// sources returns where a command's settings come from, including its own flags.
func (p *process) sources(flags map[string]any) config.Sources {
	all := maps.Clone(flags)
	set(all, "log.level", p.flags.LogLevel)
	set(all, "log.format", p.flags.LogFormat)
	return config.Sources{File: p.flags.Config, Environ: p.environ, Flags: all}
}

// offline is sources for a command that serves nobody.
func (p *process) offline(flags map[string]any) config.Sources {
	src := p.sources(flags)
	src.Offline = true
	return src
}

// load reads the settings and makes the logger.
func (p *process) load(src config.Sources) (config.Config, *slog.Logger, error) {
	cfg, err := config.Load(src)
	if err != nil {
		return config.Config{}, nil, err
	}
	return cfg, newLogger(cfg.Log, p.stderr), nil
}

// alone makes the logger of a command that reads no other settings. It rejects --config, which would
// be ignored.
func (p *process) alone(command string) (*slog.Logger, error) {
	if p.flags.Config != "" {
		return nil, fmt.Errorf("--config: %s reads no settings file: leave it out", command)
	}
	cfg, err := config.LoadLog(p.sources(map[string]any{}))
	if err != nil {
		return nil, err
	}
	return newLogger(cfg, p.stderr), nil
}

func newLogger(cfg config.Log, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.Slog()}
	if cfg.Format == "json" {
		options.ReplaceAttr = withUnits
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// withUnits writes durations as in text: in JSON they would be numbers of nanoseconds.
func withUnits(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// progress says on stderr how far long work is: on a terminal in one line that is rewritten, else in lines with times.
type progress struct {
	out      io.Writer
	terminal bool
	last     time.Time
}

// tellEvery is how often counts are shown.
const tellEvery = time.Second

func (p *process) progress() *progress {
	out := p.stderr
	if p.flags.Quiet {
		out = io.Discard
	}
	file, ok := out.(*os.File)
	if ok {
		info, err := file.Stat()
		ok = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return &progress{out: out, terminal: ok, last: time.Now()}
}

// say shows a new step.
func (p *progress) say(format string, args ...any) {
	p.last = time.Now()
	text := fmt.Sprintf(format, args...)
	if p.terminal {
		_, _ = fmt.Fprintf(p.out, "\r\033[K%s", text) // its failure is no reason to stop, here and below
		return
	}
	_, _ = fmt.Fprintln(p.out, p.last.UTC().Format(time.RFC3339), text)
}

// count shows how far a step is, unless something was shown a moment ago.
func (p *progress) count(format string, args ...any) {
	if time.Since(p.last) >= tellEvery {
		p.say(format, args...)
	}
}

// clear removes the line from a terminal, where other output follows.
func (p *progress) clear() {
	if p.terminal {
		_, _ = fmt.Fprint(p.out, "\r\033[K")
	}
}

// counted is a writer that shows how much was written.
type counted struct {
	io.Writer

	shown *progress
	bytes int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.bytes += int64(n)
	c.shown.count("exporting: %.1f MB", float64(c.bytes)/1e6)
	return n, err
}

// dataDir returns the folder of what is kept in files: that of the SQLite database, else data.
func dataDir(address string) string {
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		return filepath.Dir(path)
	}
	return "data"
}

// spoolDir returns the folder of the spool's file.
func spoolDir(address string) string { return filepath.Join(dataDir(address), "spool") }

// pageURL returns the page's address for a browser on this machine.
func pageURL(t config.TLS, addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	if t.On() {
		return "https://" + net.JoinHostPort(host, port)
	}
	return "http://" + net.JoinHostPort(host, port)
}
