// Package doctor checks whether the server could start and work here, and says in plain words what
// works, what does not, and what to do.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"

	"voicebridge/cmd/voicebridge/internal/config"
)

// Run reads the settings, checks everything and writes one line for each finding. It changes no
// table and needs no running server. version is sent to MCP servers. The error means that there are
// problems.
func Run(ctx context.Context, src config.Sources, version string, out io.Writer) error {
	problems := 0
	var lost error
	report := func(f finding) {
		if f.verdict == problem {
			problems++
		}
		_, err := fmt.Fprintln(out, f)
		lost = errors.Join(lost, err)
	}
	cfg, err := config.Load(src)
	if bad, ok := errors.AsType[*config.Error](err); ok {
		for _, wrong := range bad.Problems {
			report(finding{problem, "settings", wrong.Error()})
		}
	} else if err != nil {
		report(finding{problem, "settings", err.Error()})
	} else {
		report(finding{fine, "settings", "they can be read"})
		(&doctor{cfg: cfg, version: version, report: report}).examine(ctx)
	}
	if err := errors.Join(lost, context.Cause(ctx)); err != nil {
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

// examine runs the checks, beginning with those that show whether a server is running.
func (d *doctor) examine(ctx context.Context) {
	for _, check := range []func(context.Context){d.database, d.listening, d.certificates, d.signIn, d.metrics, d.traces, d.calls, d.typing, d.prices, d.media, d.publicAddresses, d.loopback, d.iceServers, d.microphone, d.programs, d.mcpServers} {
		if ctx.Err() != nil {
			return
		}
		check(ctx)
	}
}
