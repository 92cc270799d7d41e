package main

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
