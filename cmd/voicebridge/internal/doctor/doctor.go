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
// table and needs no running server. version is sent to MCP servers. begin gets what is checked next, and an empty text
// before a finding is written. The error means that there are problems.
func Run(ctx context.Context, src config.Sources, version string, out io.Writer, begin func(step string)) error {
	problems := 0
	var lost error
	report := func(f finding) {
		if f.verdict == problem {
			problems++
		}
		begin("")
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
		(&doctor{cfg: cfg, version: version, report: report}).examine(ctx, begin)
		begin("")
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
func (d *doctor) examine(ctx context.Context, begin func(step string)) {
	for _, step := range []struct {
		about string
		check func(context.Context)
	}{
		{aboutDatabase, d.database}, {aboutListening, d.listening}, {"sign-in", d.signIn},
		{aboutCalls, d.calls}, {"typed messages", d.typing}, {aboutMedia, d.media},
		{aboutICE, d.loopback}, {"ICE servers", d.iceServers},
		{"microphone", d.microphone}, {aboutPrograms, d.programs}, {aboutMCP, d.mcpServers},
	} {
		if ctx.Err() != nil {
			return
		}
		begin(step.about)
		step.check(ctx)
	}
}
