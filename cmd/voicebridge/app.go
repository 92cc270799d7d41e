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
	"voicebridge/hooks"
	"voicebridge/persistence"
	"voicebridge/persistence/spool"
	"voicebridge/realtime/rtc"
	"voicebridge/recording"
	"voicebridge/web"
)

// app is everything that serve runs. Fields are opened in the order listed; each may use those
// above it.
type app struct {
	cfg     config.Config
	log     *slog.Logger
	metrics *web.Metrics
	// instance is the id of this process.
	instance string

	traces   *telemetry.Traces // nil when there are none
	observer *telemetry.Observer

	store      *persistence.Store
	spool      *spool.Writer
	media      *rtc.API
	tools      *tools
	queue      *queue.Queue
	texts      *chat.Coordinator
	up         *upstream
	calls      *bridge.Calls
	recordings *recording.Archive // nil if calls are not recorded
	door       *chat.Door
	server     *web.Server
	// addresses says where hooks may be, hooks delivers to them.
	addresses *hooks.Addresses
	hooks     *hooks.Sender
	// operators is the port for metrics and profiles; nil if off.
	operators net.Listener
	ln        net.Listener
	// privateURL is where other processes reach ln; empty: nowhere.
	privateURL string
	// certificate is for https; nil without it.
	certificate *certificate.Source

	closers []func() error
}

// onClose registers f, which close calls before the functions registered earlier.
func (a *app) onClose(f func() error) { a.closers = append(a.closers, f) }

func (a *app) close() error {
	var errs []error
	for _, f := range slices.Backward(a.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}
