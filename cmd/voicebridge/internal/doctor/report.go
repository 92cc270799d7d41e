package doctor

import (
	"fmt"
	"strings"

	"voicebridge/cmd/voicebridge/internal/config"
)

// The verdicts of a finding.
const (
	fine    = "ok"
	warning = "warning" // it works, but not for everyone or not as expected
	problem = "problem" // it does not work
)

// finding is one line of the report.
type finding struct {
	verdict string
	about   string
	text    string // what was found, and what to do
}

func (f finding) String() string { return f.verdict + ": " + f.about + ": " + oneLine(f.text) }

// oneLine puts text from a driver or a server on one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// doctor checks one thing after another.
type doctor struct {
	cfg     config.Config
	version string
	// report is called with each finding.
	report func(finding)
	// running is set if a voicebridge with these settings seems to be running: a port that it uses
	// is then not a problem.
	running bool
}

func (d *doctor) say(verdict, about, format string, args ...any) {
	d.report(finding{verdict, about, fmt.Sprintf(format, args...)})
}
