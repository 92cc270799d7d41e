package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"voicebridge/cmd/voicebridge/internal/bench"
)

// benchCommand is the command bench. It ignores all other settings: the programs that it measures
// get settings of their own.
type benchCommand struct {
	Calls    []int  `help:"Numbers of simultaneous calls, each measured separately (${default})." default:"1,50,200" placeholder:"N"`
	Seconds  int    `help:"Seconds to measure for each number of calls (${default})." default:"10" placeholder:"N"`
	Events   int    `help:"Events per second that carry the model's words in each call, alongside the audio (${default})." default:"5" placeholder:"N"`
	Socket   bool   `name:"websocket" help:"Reach the model over WebSocket, where its sound is decoded and encoded."`
	Record   bool   `help:"Record the calls."`
	SetUps   int    `name:"setups" help:"Measure instead how soon calls are set up over emulated networks: so many set-ups of each kind." placeholder:"N"`
	Database string `help:"Database for the bridge, made for this purpose; by default, a SQLite file that is thrown away." placeholder:"URL"`
	JSON     string `help:"Write the figures as JSON to this file; - writes only them, to standard output." placeholder:"FILE"`
}

// Run measures and prints the report; after a failure, the part that was measured.
func (b *benchCommand) Run(p *process) error {
	if _, err := p.alone("bench"); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	return b.run(p, bench.Command{Path: program, Args: []string{"serve"}, Environ: passedOn(p.environ), Database: b.Database})
}

func (b *benchCommand) run(p *process, command bench.Command) error {
	write, err := b.output(p.stdout)
	if err != nil {
		return err
	}
	if b.SetUps != 0 {
		report, err := bench.SetUps{Count: b.SetUps, Bridge: command, Version: buildVersion(), Progress: p.stderr}.Run(p.ctx)
		return b.end(p, err, len(report.Rounds) > 0, write, report)
	}
	report, err := bench.Run(p.ctx, bench.Config{
		Calls: b.Calls, Duration: time.Duration(b.Seconds) * time.Second, Events: b.Events, Socket: b.Socket, Record: b.Record, Bridge: command, Version: buildVersion(), Progress: p.stderr,
	})
	return b.end(p, err, len(report.Rounds) > 0, write, report)
}

// end writes what was measured.
func (b *benchCommand) end(p *process, err error, measured bool, write func(benchReport) error, report benchReport) error {
	if err != nil && p.ctx.Err() != nil {
		return errors.New("the benchmark was interrupted")
	}
	if measured {
		err = errors.Join(err, write(report))
	}
	return err
}

// benchReport is what was measured; its JSON form is for programs.
type benchReport interface{ WriteTable(w io.Writer) error }

// output opens the report's file before anything is measured, so that a bad name is found at once.
// The file keeps its content until there is something to replace it.
func (b *benchCommand) output(stdout io.Writer) (func(benchReport) error, error) {
	switch b.JSON {
	case "":
		return func(r benchReport) error { return r.WriteTable(stdout) }, nil
	case "-":
		return func(r benchReport) error { return writeJSON(stdout, r) }, nil
	}
	probe, err := os.OpenFile(b.JSON, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open file for the figures: %w", err)
	}
	if err := probe.Close(); err != nil {
		return nil, fmt.Errorf("open file for the figures: %w", err)
	}
	return func(r benchReport) error {
		var text strings.Builder
		err := writeJSON(&text, r)
		if err == nil {
			err = os.WriteFile(b.JSON, []byte(text.String()), 0o644)
		}
		return errors.Join(err, r.WriteTable(stdout))
	}, nil
}

func writeJSON(w io.Writer, r benchReport) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// passedOn picks the environment variables that the measured process may see: the system's, and
// those of Go's runtime so that its settings can be tried out. The operator's settings and keys are
// left out.
func passedOn(environ []string) []string {
	names := []string{
		"PATH", "HOME", "TMPDIR", "TZ", "SYSTEMROOT", "TEMP", "TMP", // of the system
		"GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG", "GOCOVERDIR", // of Go's runtime
	}
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !slices.Contains(names, strings.ToUpper(name))
	})
}
