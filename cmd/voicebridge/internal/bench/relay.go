package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
)

// maxOffer bounds the body of a call.
const maxOffer = 1 << 20

// Relay serves a bare relay until ctx ends: for each call that it gets it makes a second one, and
// does nothing but pass on audio and events. It is the baseline for the bridge. It prints its
// address to out; upstream is the base URL of the API.
func Relay(ctx context.Context, listen, upstream string, out io.Writer) error {
	quiet := slog.New(slog.DiscardHandler)
	api, err := rtc.New(rtc.Config{Loopback: true, Logger: quiet})
	if err != nil {
		return fmt.Errorf("start relay: %w", err)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return errors.Join(fmt.Errorf("start relay: %w", err), api.Close())
	}
	r := &relay{
		ctx: ctx, api: api, calls: map[string]*relayed{},
		client: &realtime.Client{BaseURL: upstream, HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atOnce}}},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/realtime/calls", r.create)
	mux.HandleFunc("POST /v1/realtime/calls/{id}/hangup", r.hangUp)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: closeTimeout}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	fmt.Fprintf(out, "relay on http://%s\n", ln.Addr())
	_ = srv.Serve(ln) // it ends by Close
	return errors.Join(r.endAll(), api.Close())
}

type relay struct {
	ctx    context.Context //nolint:containedctx // of the calls, which outlive their requests
	api    *rtc.API
	client *realtime.Client

	mu    sync.Mutex
	calls map[string]*relayed
	made  int
}

// relayed is one call.
type relayed struct {
	browser, up *rtc.Peer
	end         context.CancelFunc
	all         sync.WaitGroup

	mu sync.Mutex
	id string // id of the upstream's call
}

func (r *relay) create(w http.ResponseWriter, req *http.Request) {
	req.Body = http.MaxBytesReader(w, req.Body, maxOffer)
	if err := req.ParseMultipartForm(maxOffer); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, id, err := r.call(req.FormValue("sdp"), []byte(req.FormValue("session")))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Location", "/v1/realtime/calls/"+id)
	w.Header().Set("Content-Type", "application/sdp")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, answer)
}

// call answers the browser while it dials the other side.
func (r *relay) call(offer string, session []byte) (answer, id string, err error) {
	ctx, end := context.WithCancel(r.ctx)
	c := &relayed{end: end}
	var upOffer string
	// Both are set before a message can come: nothing is connected yet.
	c.up, upOffer, err = r.api.Offer(ctx, rtc.Handlers{Message: func(data []byte) { _ = c.browser.Send(ctx, data) }})
	if err != nil {
		end()
		return "", "", err
	}
	c.browser, answer, err = r.api.Answer(ctx, offer, rtc.Handlers{Message: func(data []byte) { _ = c.up.Send(ctx, data) }})
	if err != nil {
		end()
		return "", "", errors.Join(err, c.up.Close())
	}
	for from, to := range map[*rtc.Peer]*rtc.Peer{c.browser: c.up, c.up: c.browser} {
		flow := new(rtc.Flow)
		flow.Open()
		c.all.Go(func() { _ = from.Forward(ctx, to, flow) }) // it ends with the call
	}
	c.all.Go(func() {
		call, err := r.client.CreateCall(ctx, upOffer, session)
		c.mu.Lock()
		c.id = call.ID
		c.mu.Unlock()
		if err == nil {
			err = c.up.Accept(ctx, call.Answer)
		}
		if err != nil {
			end()
		}
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made++
	id = fmt.Sprintf("relayed-%d", r.made)
	r.calls[id] = c
	return answer, id, nil
}

func (r *relay) hangUp(_ http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	id := req.PathValue("id")
	c := r.calls[id]
	delete(r.calls, id)
	r.mu.Unlock()
	if c != nil {
		_ = c.close(r.client) // the other side is gone, too
	}
}

func (c *relayed) close(client *realtime.Client) error {
	c.mu.Lock()
	id := c.id
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := client.Hangup(ctx, id)
	c.end()
	err = errors.Join(err, c.browser.Close(), c.up.Close())
	c.all.Wait()
	return err
}

func (r *relay) endAll() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, c := range r.calls {
		errs = append(errs, c.close(r.client))
	}
	return errors.Join(errs...)
}
