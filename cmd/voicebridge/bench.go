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
	Calls      []int  `help:"Numbers of simultaneous calls, each measured separately (${default})." default:"1,50,200" placeholder:"N"`
	Seconds    int    `help:"Seconds to measure for each number of calls, without and with the bridge (${default})." default:"10" placeholder:"N"`
	Setups     int    `help:"Calls to set up one after the other, without and with the bridge; 0 leaves it out (${default})." default:"25" placeholder:"N"`
	Tools      int    `help:"Tools to run at once in one call while its latency is measured, on one call and on the first larger number of --calls; 0 leaves it out (${default})." default:"8" placeholder:"N"`
	Events     int    `help:"Events per second that carry the model's words in each call, alongside the audio; each number of calls is measured without and with them; 0 leaves it out (${default})." default:"0" placeholder:"N"`
	EventBytes []int  `help:"Bytes of text in such an event, one round for each (${default})." default:"10,80" placeholder:"N"`
	NoLoad     bool   `help:"Leave out the rounds with audio only."`
	Relay      bool   `help:"Measure a bare relay in place of the bridge: it passes on audio and events and does nothing else."`
	Against    string `help:"Compare with the figures in this file, which --json wrote for the bare relay or another version." placeholder:"FILE" type:"existingfile"`
	Database   string `help:"Database for the bridge, made for this purpose; by default, a SQLite file that is thrown away." placeholder:"URL"`
	JSON       string `help:"Write the figures as JSON to this file; - writes only them, to standard output." placeholder:"FILE"`
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
	command := bench.Command{Path: program, Args: []string{"serve"}, Environ: passedOn(p.environ), Database: b.Database, Relay: b.Relay}
	if b.Relay {
		command.Args = []string{"relay"}
	}
	return b.run(p, command)
}

func (b *benchCommand) run(p *process, command bench.Command) error {
	write, err := b.output(p.stdout)
	if err != nil {
		return err
	}
	var other *bench.Report
	if b.Against != "" {
		if other, err = readFigures(b.Against); err != nil {
			return err
		}
	}
	report, err := bench.Run(p.ctx, bench.Config{
		Calls: b.Calls, Duration: time.Duration(b.Seconds) * time.Second, SetUps: b.Setups, Tools: b.Tools,
		Events: b.Events, EventBytes: b.EventBytes, NoLoad: b.NoLoad, Bridge: command, Version: buildVersion(), Progress: p.stderr,
	})
	if err != nil && p.ctx.Err() != nil {
		return errors.New("the benchmark was interrupted")
	}
	if other != nil {
		report.CompareWith(*other)
	}
	if err == nil || report.SetUp != nil || len(report.Load) > 0 || len(report.Words) > 0 || len(report.Tools) > 0 {
		err = errors.Join(err, write(report))
	}
	return err
}

func readFigures(name string) (*bench.Report, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read figures: %w", err)
	}
	r, err := bench.ReadReport(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &r, nil
}

// relayCommand is the command that bench --relay starts.
type relayCommand struct{}

// Run serves until the process is told to stop.
func (relayCommand) Run(p *process) error {
	setting := func(name string) string {
		for _, entry := range p.environ {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				return value
			}
		}
		return ""
	}
	return bench.Relay(p.ctx, setting("VOICEBRIDGE_LISTEN"), setting("OPENAI_BASE_URL"), p.stdout)
}

// output opens the report's file before anything is measured, so that a bad name is found at once.
// The file keeps its content until there is something to replace it.
func (b *benchCommand) output(stdout io.Writer) (func(bench.Report) error, error) {
	switch b.JSON {
	case "":
		return func(r bench.Report) error { return r.WriteTable(stdout) }, nil
	case "-":
		return func(r bench.Report) error { return writeJSON(stdout, r) }, nil
	}
	probe, err := os.OpenFile(b.JSON, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open file for the figures: %w", err)
	}
	if err := probe.Close(); err != nil {
		return nil, fmt.Errorf("open file for the figures: %w", err)
	}
	return func(r bench.Report) error {
		var text strings.Builder
		err := writeJSON(&text, r)
		if err == nil {
			err = os.WriteFile(b.JSON, []byte(text.String()), 0o644)
		}
		return errors.Join(err, r.WriteTable(stdout))
	}, nil
}

func writeJSON(w io.Writer, r bench.Report) error {
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
