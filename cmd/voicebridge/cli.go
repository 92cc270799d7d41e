package main

import (
	"context"
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"voicebridge/cmd/voicebridge/internal/doctor"
	"voicebridge/persistence"
	"voicebridge/web/access"
)

// cli is the command line.
type cli struct {
	globalFlags `embed:""`

	Version kong.VersionFlag `help:"Print the version."`

	Serve    serveCommand    `cmd:"" default:"withargs" help:"Serve the page and the API (the default)."`
	Migrate  migrateCommand  `cmd:"" help:"Bring the database's tables up to date, and exit."`
	Export   exportCommand   `cmd:"" help:"Write a saved conversation as Markdown or JSON, or everything of an owner."`
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

// serveCommand is the command serve.
type serveCommand struct {
	Settings settingFlags `embed:""`
}

// Run serves until the process is told to stop.
func (s *serveCommand) Run(p *process) error {
	cfg, log, err := p.load(p.sources(s.Settings.settings()))
	if err != nil {
		return err
	}
	return serve(p.ctx, cfg, log, p.stdout)
}

// settingFlags are the flags that are settings, each with the key that it sets.
type settingFlags struct {
	Listen         *string  `help:"Address of the page and the API." placeholder:"HOST:PORT"`
	Database       *string  `help:"sqlite:PATH or postgres://…" placeholder:"URL"`
	Upstream       *string  `help:"openai or simulator." placeholder:"NAME"`
	OpenAIBaseURL  *string  `name:"openai-base-url" help:"Base URL of the Realtime API." placeholder:"URL"`
	Model          *string  `help:"Realtime model." placeholder:"NAME"`
	Voice          *string  `help:"Voice of the assistant." placeholder:"NAME"`
	AllowedOrigins []string `help:"Origins whose pages may use the API." placeholder:"ORIGIN"`
	UDPPort        *int     `name:"udp-port" help:"One UDP port for all media; 0 is any." placeholder:"PORT"`
	PublicIPs      []string `name:"public-ips" help:"Addresses that browsers reach this machine by." placeholder:"IP"`
	MCPConfig      *string  `name:"mcp-config" help:"File with MCP servers (mcp.json if it exists)." placeholder:"FILE"`
}

func (s *settingFlags) settings() map[string]any {
	out := map[string]any{}
	set(out, "listen", s.Listen)
	set(out, "database_url", s.Database)
	set(out, "upstream", s.Upstream)
	set(out, "openai_base_url", s.OpenAIBaseURL)
	set(out, "realtime.model", s.Model)
	set(out, "realtime.voice", s.Voice)
	set(out, "udp_port", s.UDPPort)
	set(out, "mcp_config", s.MCPConfig)
	if len(s.AllowedOrigins) > 0 {
		out["allowed_origins"] = s.AllowedOrigins
	}
	if len(s.PublicIPs) > 0 {
		out["public_ips"] = s.PublicIPs
	}
	return out
}

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
	shown := p.progress()
	options := persistence.Options{Logger: log, OnMigration: func(name string, number, of int) {
		shown.say("applying %s (%d of %d)", name, number, of)
	}}
	err = persistence.Migrate(p.ctx, cfg.Secrets.DatabaseURL.Reveal(), options)
	shown.clear()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.stdout, "The database is up to date.")
	return err
}

// doctorCommand is the command doctor. It takes the flags of serve, because it checks what a start
// with them would find.
type doctorCommand struct {
	Settings settingFlags `embed:""`
}

// Run checks everything and prints one line for each finding.
func (d *doctorCommand) Run(p *process) error {
	shown := p.progress()
	return doctor.Run(p.ctx, p.sources(d.Settings.settings()), buildVersion(), p.stdout, func(step string) {
		shown.clear()
		if shown.terminal && step != "" { // elsewhere the findings say how far it is
			shown.say("checking %s …", step)
		}
	})
}
