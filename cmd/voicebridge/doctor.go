package main

import "voicebridge/cmd/voicebridge/internal/doctor"

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
