package main

import (
	"context"
	"fmt"
	"path/filepath"

	"voicebridge/bridge"
	"voicebridge/recording"
)

// openRecordings opens what keeps the sound of calls.
func (a *app) openRecordings(context.Context) error {
	cfg := &a.cfg.Recording
	if !cfg.Enabled {
		return nil
	}
	store, err := recording.NewStore(cfg.Store, recording.S3Config{
		Endpoint: cfg.S3Endpoint, Region: cfg.S3Region, KeyID: a.cfg.Secrets.S3KeyID.Reveal(), Secret: a.cfg.Secrets.S3Secret.Reveal(),
	})
	if err == nil {
		a.recordings, err = recording.New(recording.Config{
			Tapes: filepath.Join(spoolDir(a.cfg.Secrets.DatabaseURL.Reveal()), "tapes"), Store: store, Records: a.store.Recordings, Days: cfg.Days, Logger: a.log,
		})
	}
	if err != nil {
		return fmt.Errorf("open recordings (recording.store): %w", err)
	}
	return nil
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
