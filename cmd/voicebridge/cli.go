package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"voicebridge/web"
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

// cli is the command line. Flags that are settings are pointers: nil leaves the
// setting to the environment, the file and the defaults.
type cli struct {
	Config  string           `help:"Settings file (environment VOICEBRIDGE_CONFIG; voicebridge.yaml if it is there)." placeholder:"FILE"`
	Version kong.VersionFlag `help:"Print the version."`

	LogLevel  *string `help:"debug, info, warn or error." placeholder:"LEVEL"`
	LogFormat *string `help:"text or json." placeholder:"FORMAT"`

	Serve    serveCommand    `cmd:"" default:"withargs" help:"Serve the page and the API (the default)."`
	Migrate  migrateCommand  `cmd:"" help:"Bring the database's tables up to date, and end."`
	Export   exportCommand   `cmd:"" help:"Write a saved conversation as Markdown, JSON or subtitles."`
	Doctor   doctorCommand   `cmd:"" help:"Check, in plain words, whether the server would work here: database, keys, network, MCP servers, microphone."`
	Simulate simulateCommand `cmd:"" help:"Serve the Realtime simulator alone, for other clients and for tests."`
	Bench    benchCommand    `cmd:"" help:"Measure what the bridge adds to calls, on this machine: latency, CPU, memory, set-up time."`
}

// settings returns the flags that were given, by the keys that they set.
func (c *cli) settings() map[string]any {
	out := map[string]any{}
	set(out, "log.level", c.LogLevel)
	set(out, "log.format", c.LogFormat)
	return out
}

func set[T any](out map[string]any, key string, value *T) {
	if value != nil {
		out[key] = *value
	}
}

// process is what a command gets of the process that it runs in.
type process struct {
	ctx     context.Context
	cli     *cli
	environ []string
	stdout  io.Writer
	stderr  io.Writer
}

// load reads the settings with the flags of a command and makes the logger.
func (p *process) load(flags map[string]any) (config, *slog.Logger, error) {
	all := p.cli.settings()
	maps.Copy(all, flags)
	cfg, err := loadConfig(sources{File: p.cli.Config, Environ: p.environ, Flags: all})
	if err != nil {
		return config{}, nil, err
	}
	return cfg, newLogger(cfg.Log, p.stderr), nil
}

// alone checks the flags of a command that reads no other settings, and returns
// how it is to log. A settings file that nobody reads is refused.
func (p *process) alone(command string) (logConfig, error) {
	cfg := defaults().Log
	if p.cli.LogLevel != nil {
		cfg.Level = *p.cli.LogLevel
	}
	if p.cli.LogFormat != nil {
		cfg.Format = *p.cli.LogFormat
	}
	var w checks
	if p.cli.Config != "" {
		w.wrong("--config", "%s reads no settings file: leave it out", command)
	}
	cfg.check(&w)
	if len(w) > 0 {
		return cfg, &configError{w}
	}
	return cfg, nil
}

func newLogger(cfg logConfig, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.level()}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// exited is the panic with which kong's wish to end the process leaves it.
type exited int

// execute runs the command line and returns the process's exit code: 0 after an
// orderly end, 1 when the command failed, 2 when it could not be read.
func execute(ctx context.Context, args, environ []string, stdout, stderr io.Writer) (code int) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exited:
			code = int(r)
		default:
			panic(r)
		}
	}()
	var c cli
	parser, err := kong.New(&c,
		kong.Name("voicebridge"),
		kong.Description("A bridge between browsers and a realtime voice model that keeps every conversation in SQL."),
		kong.Vars{"version": buildVersion(), "owner": web.LocalOwner},
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
	)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "voicebridge:", err)
		return 1
	}
	command, err := parser.Parse(args)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "voicebridge: %v (voicebridge --help lists what there is)\n", err)
		return 2
	}
	if err := command.Run(&process{ctx, &c, environ, stdout, stderr}); err != nil {
		_, _ = fmt.Fprintln(stderr, "voicebridge:", err)
		return 1
	}
	return 0
}
