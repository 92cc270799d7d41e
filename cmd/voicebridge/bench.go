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
	Socket   bool   `name:"websocket" help:"Reach the model over WebSocket, where its sound is decoded and encoded."`
	Database string `help:"Empty database for the bridge; by default, a SQLite file that is thrown away." placeholder:"URL"`
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
	command := bench.Command{Path: program, Args: []string{"serve"}, Environ: passedOn(p.environ), Database: b.Database}
	return b.run(p, command)
}

func (b *benchCommand) run(p *process, command bench.Command) error {
	figures := io.Discard
	if b.JSON == "-" {
		figures = p.stdout
	} else if b.JSON != "" {
		// Opened before anything is measured, so that a bad name is found at once.
		file, err := os.OpenFile(b.JSON, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return fmt.Errorf("open file for the figures: %w", err)
		}
		figures = replacement{file}
		defer func() { _ = file.Close() }() // each write is reported
	}
	shown := p.progress()
	report, err := bench.Run(p.ctx, bench.Config{
		Calls: b.Calls, Duration: time.Duration(b.Seconds) * time.Second, Socket: b.Socket,
		Bridge: command, Version: buildVersion(), Progress: func(calls int) {
			shown.say("measuring %d calls at once, for %d s", calls, b.Seconds)
		},
	})
	shown.clear()
	if err != nil && p.ctx.Err() != nil {
		return errors.New("the benchmark was interrupted")
	}
	if len(report.Rounds) == 0 {
		return err
	}
	encoder := json.NewEncoder(figures)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err = errors.Join(err, encoder.Encode(report))
	if b.JSON != "-" {
		err = errors.Join(err, report.WriteTable(p.stdout))
	}
	return err
}

// replacement replaces the content of a file by what is written at once.
type replacement struct{ *os.File }

func (r replacement) Write(p []byte) (int, error) {
	if err := r.Truncate(0); err != nil {
		return 0, err
	}
	return r.File.Write(p)
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
