package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"voicebridge/assistant"
	"voicebridge/bridge"
	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/phone"
	"voicebridge/realtime/rtc"
	"voicebridge/recording"
	"voicebridge/thread"
)

// mediaConfig returns the settings of media, which may use loopback if the page or the upstream is on
// this machine.
func (a *app) mediaConfig() rtc.Config {
	cfg := &a.cfg
	out := cfg.Media
	out.Logger, out.Loopback, out.DataChannel = a.log, cfg.Loopback() || needsLoopback(a.cfg), uint16(dataChannel(cfg))
	for _, s := range cfg.ICEServers {
		out.ICEServers = append(out.ICEServers,
			rtc.ICEServer{URLs: s.URLs, Username: s.Username, Credential: s.Credential.Reveal()})
	}
	return out
}

// bridgeConfig returns the settings of calls, with the hooks that run when a call is over and when
// the next queued message may be spoken.
func (a *app) bridgeConfig() bridge.Config {
	var record func(owner, callID string, failed func()) (bridge.Recording, error)
	if a.recordings != nil {
		record = a.record
	}
	return bridge.Config{
		Record: record, Announcement: a.cfg.Recording.Announce,
		Upstreams: a.up.routes,
		Browser:   a.media,
		Store:     a.store,
		Tools:     a.tools.spoken,
		Settings: bridge.Settings{
			Session: a.cfg.Realtime.SessionConfig, Limits: a.cfg.Calls, Budget: a.cfg.Budget,
			ReplayMessages: a.cfg.Conversations.History.ReplayMessages, Approve: a.cfg.Tools.Approve,
			Deny: a.cfg.Tools.Deny, FillerAfter: assistant.Seconds(a.cfg.Tools.FillerAfter),
			FillerLines: a.cfg.Tools.FillerLines, FillerTone: a.cfg.Tools.FillerTone,
		},
		ToolTimeout: a.cfg.Tools.Timeout,
		OnTool:      a.observer.Tool,
		GiveUp: func(ctx context.Context, call records.Call, takeover bool) error {
			return a.server.GiveUp(ctx, call, takeover)
		},
		Observe: a.observer.Call,
		Cost:    a.cfg.VoiceCost, TranscriptionCost: a.cfg.TranscriptionCost,
		ImageQuota: a.cfg.ImageQuota(),
		OnTurn: func(key thread.Key) {
			a.texts.Talked(key) // spoken threads get titles, too
			a.queue.Spoke(key)
		},
		OnEnd: func(key thread.Key, reason bridge.EndReason) {
			a.metrics.CallEnded(string(reason))
			a.queue.CallEnded(key)
			a.texts.CallEnded()
		},
		OnCount:         func(c bridge.Counter) { a.metrics.CallEvent(string(c)) },
		OnDraftsDropped: a.metrics.DraftsDropped,
		Writer:          a.spool,
		Logger:          a.log,
	}
}

// openRecordings opens what keeps the sound of calls.
// dialer returns what makes calls out by telephone.
func (a *app) dialer() *phone.Dialer {
	return &phone.Dialer{
		Settings: a.cfg.Phone, Store: a.store.Records, PublicURL: strings.TrimSuffix(a.cfg.PublicURL, "/"), Log: a.log,
	}
}

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
		Endpoint: cfg.S3Endpoint, Region: cfg.S3Region, KeyID: c.Secrets.S3KeyID.Reveal(),
		Secret: c.Secrets.S3Secret.Reveal(), Session: c.Secrets.S3Session.Reveal(),
	})
	var archive *recording.Archive
	if err == nil {
		archive, err = recording.New(recording.Config{
			Tapes: filepath.Join(spoolDir(c.Secrets.DatabaseURL.Reveal()), "tapes"), Store: store,
			Records: records.Recordings, Days: cfg.Days, Logger: log,
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
