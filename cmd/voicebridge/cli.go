package main

import (
	"context"
	"fmt"
	"io"

	"voicebridge/web/access"

	"github.com/alecthomas/kong"
)

// cli is the command line.
type cli struct {
	globalFlags `embed:""`

	Version kong.VersionFlag `help:"Print the version."`

	Serve    serveCommand    `cmd:"" default:"withargs" help:"Serve the page and the API (the default)."`
	Migrate  migrateCommand  `cmd:"" help:"Bring the database's tables up to date, and exit."`
	Export   exportCommand   `cmd:"" help:"Write a saved conversation as Markdown, JSON or subtitles, or everything of an owner."`
	Erase    eraseCommand    `cmd:"" help:"Delete everything of an owner."`
	Doctor   doctorCommand   `cmd:"" help:"Check, in plain words, whether the server would work here: database, keys, network, MCP servers, microphone."`
	Simulate simulateCommand `cmd:"" help:"Serve the Realtime simulator alone, for other clients and for tests."`
	Bench    benchCommand    `cmd:"" help:"Measure how many calls this machine carries: latency, CPU, memory, set-up time."`
}

// exited is the panic value that carries kong's request to exit.
type exited int

// execute runs the command line and returns the process's exit code: 0 on success, 1 if the command
// failed, 2 if it could not be parsed.
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
		kong.Vars{"version": buildVersion(), "owner": access.LocalOwner},
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
	)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "voicebridge:", err)
		return 1
	}
	command, err := parser.Parse(args)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "voicebridge: %v (see voicebridge --help)\n", err)
		return 2
	}
	if err := command.Run(&process{ctx, c.globalFlags, environ, stdout, stderr}); err != nil {
		_, _ = fmt.Fprintln(stderr, "voicebridge:", err)
		return 1
	}
	return 0
}
