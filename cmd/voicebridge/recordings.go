package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"voicebridge/bridge"
	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/persistence"
	"voicebridge/recording"
)

// openRecordings opens what keeps the sound of calls.
func (a *app) openRecordings(context.Context) (err error) {
	a.recordings, err = openArchive(a.cfg, a.store, a.log)
	return err
}

// openArchive opens the recordings of the settings; nil if calls are not recorded.
func openArchive(c config.Config, records *persistence.Store, log *slog.Logger) (*recording.Archive, error) {
	cfg := &c.Recording
	if !cfg.Enabled {
		return nil, nil
	}
	store, err := recording.NewStore(cfg.Store, recording.S3Config{
		Endpoint: cfg.S3Endpoint, Region: cfg.S3Region, KeyID: c.Secrets.S3KeyID.Reveal(), Secret: c.Secrets.S3Secret.Reveal(),
	})
	var archive *recording.Archive
	if err == nil {
		archive, err = recording.New(recording.Config{
			Tapes: filepath.Join(spoolDir(c.Secrets.DatabaseURL.Reveal()), "tapes"), Store: store, Records: records.Recordings,
			Days: cfg.Days, Logger: log,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open recordings (recording.store): %w", err)
	}
	return archive, nil
}

// record prepares the recording of a call.
func (a *app) record(owner, callID string, failed func()) (bridge.Recording, error) {
	r, err := a.recordings.Begin(owner, callID, failed)
	if err != nil {
		return nil, err // not a typed nil
	}
	return r, nil
}

// keepRecordings finishes and deletes recordings until ctx ends.
func (a *app) keepRecordings(ctx context.Context) error {
	if a.recordings == nil {
		return nil
	}
	a.recordings.Run(ctx)
	return nil
}
