package leg

import (
	"context"
	"log/slog"
	"time"

	"voicebridge/bridge/internal/task"
	"voicebridge/realtime/media"
)

const (
	// browserTimeout is how long sending the last events to a browser may take.
	browserTimeout = time.Second
	// joinTimeout is the same for one that is still connecting.
	joinTimeout = 5 * time.Second
)

// Browser is one connection of a call's browser, with its goroutines. Gen is its generation: see session.Input.
type Browser struct {
	Gen  int
	Peer Peer

	name   string // for the log
	log    *slog.Logger
	out    *outbox
	cancel context.CancelFunc
	sent   <-chan struct{} // closed when the outbox has ended
	pumped <-chan struct{} // closed when audio is no longer forwarded
}

// NewBrowser returns the leg of a connection; Start and End must follow. onDrop is called with the
// number of drafts that a slow browser has missed.
func NewBrowser(gen int, peer Peer, log *slog.Logger, onDrop func(int)) *Browser {
	b := newBrowser("browser", peer, log, onDrop)
	b.Gen = gen
	if peer.MaxMessageSize() == 0 {
		b.out.close() // it has no data channel and only listens
	}
	return b
}

// NewSideband returns the leg of a connection without sound beside the browser.
func NewSideband(peer Peer, log *slog.Logger, onDrop func(int)) *Browser {
	return newBrowser("sideband", peer, log, onDrop)
}

func newBrowser(name string, peer Peer, log *slog.Logger, onDrop func(int)) *Browser {
	return &Browser{Peer: peer, name: name, log: log, out: newOutbox(name, log, onDrop)}
}

// Start runs the leg's goroutines until ctx ends. The caller's audio goes to dst, as far as flow lets it through.
func (b *Browser) Start(ctx context.Context, dst media.Sink, flow *media.Flow) {
	ctx, b.cancel = context.WithCancel(ctx)
	b.sent = task.Go(func() { b.out.run(ctx, b.Peer) })
	b.pumped = task.Go(func() { logPumpEnd(b.log, b.name, b.Peer.Forward(ctx, dst, flow)) })
}

// Push sends an event. It returns false if so much is waiting that the browser must be given up;
// before that, drafts are dropped.
func (b *Browser) Push(data []byte, draft bool) bool { return b.out.push(data, draft) }

// Shut accepts no more events.
func (b *Browser) Shut() { b.out.close() }

// End closes the connection once its events have been sent, and joins the goroutines.
func (b *Browser) End() { b.end(browserTimeout) }

// EndJoined is End for a browser that may still be connecting, and must learn first why its call ends.
func (b *Browser) EndJoined() { b.end(joinTimeout) }

func (b *Browser) end(patience time.Duration) {
	b.out.close()
	task.Await(b.sent, patience)
	b.cancel()
	closePeer(b.log, b.name, b.Peer)
	<-b.sent
	<-b.pumped
}
