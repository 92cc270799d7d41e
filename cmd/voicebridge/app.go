package main

import (
	"errors"
	"log/slog"
	"net"
	"slices"

	"voicebridge/bridge"
	"voicebridge/chat"
	"voicebridge/chat/queue"
	"voicebridge/cmd/voicebridge/internal/certificate"
	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/cmd/voicebridge/internal/telemetry"
	"voicebridge/persistence"
	"voicebridge/persistence/spool"
	"voicebridge/realtime/rtc"
	"voicebridge/web"
)

// app is everything that serve runs. The fields stand in the order in which they
// are opened: each may use those above it.
type app struct {
	cfg     config.Config
	log     *slog.Logger
	metrics *web.Metrics
	// instance is the id of this process.
	instance string

	traces    *telemetry.Traces // nil when there are none
	observer  *telemetry.Observer
	operators net.Listener // nil when it is off

	store  *persistence.Store
	spool  *spool.Writer // nil where no file can be made
	media  *rtc.API
	tools  *tools
	up     *upstream
	inbox  *queue.Queue
	texts  *chat.Coordinator
	calls  *bridge.Calls
	server *web.Server
	ln     net.Listener
	// certificate is for https; nil without.
	certificate *certificate.Source

	closers []func() error
}

// onClose has close call f, before what was opened earlier is closed.
func (a *app) onClose(f func() error) { a.closers = append(a.closers, f) }

func (a *app) close() error {
	var errs []error
	for _, f := range slices.Backward(a.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}
