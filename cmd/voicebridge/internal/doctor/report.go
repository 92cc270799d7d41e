package doctor

import (
	"fmt"
	"strings"

	"voicebridge/cmd/voicebridge/internal/config"
)

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

// doctor looks at one place after another.
type doctor struct {
	cfg     config.Config
	version string
	// report takes what was found, as it is found.
	report func(finding)
	// running says that a voicebridge with these settings seems to run: what it
	// holds is no problem.
	running bool
}

func (d *doctor) say(verdict, about, format string, args ...any) {
	d.report(finding{verdict, about, fmt.Sprintf(format, args...)})
}
