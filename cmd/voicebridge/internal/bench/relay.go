package bench

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
)

// maxOffer bounds the body of a call.
const maxOffer = 1 << 20

// Relay is what the bridge is compared with: it answers calls, makes a second one for each, passes on audio and events, and
// does nothing else. It waits for nothing: a caller is answered at once.
type Relay struct {
	ctx    context.Context //nolint:containedctx // of the calls, which outlive their requests
	api    *rtc.API
	client *realtime.Client
	mux    *http.ServeMux
	all    sync.WaitGroup

	mu    sync.Mutex
	calls []*rtc.Peer
}

// NewRelay returns a relay of calls to client's upstream. They live until ctx ends; Close must be called.
func NewRelay(ctx context.Context, api *rtc.API, client *realtime.Client) *Relay {
	r := &Relay{ctx: ctx, api: api, client: client, mux: http.NewServeMux()}
	r.mux.HandleFunc("POST /v1/realtime/calls", r.create)
	r.mux.HandleFunc("POST /v1/realtime/calls/{id}/hangup", func(http.ResponseWriter, *http.Request) {}) // its peers are closed by the other side
	return r
}

func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.mux.ServeHTTP(w, req) }

// Close ends what is left of the calls, once nothing is served any more and ctx has ended.
func (r *Relay) Close() error {
	var errs []error
	for _, p := range r.calls {
		errs = append(errs, p.Close())
	}
	r.all.Wait()
	return errors.Join(errs...)
}

func (r *Relay) create(w http.ResponseWriter, req *http.Request) {
	req.Body = http.MaxBytesReader(w, req.Body, maxOffer)
	if err := req.ParseMultipartForm(maxOffer); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := r.call(req.FormValue("sdp"), []byte(req.FormValue("session")))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Location", "/v1/realtime/calls/relayed")
	w.Header().Set("Content-Type", "application/sdp")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, answer)
}

// call answers the browser while it dials the other side.
func (r *Relay) call(offer string, session []byte) (answer string, err error) {
	var browser, up *rtc.Peer
	// Both are set before a message can come: nothing is connected yet.
	up, upOffer, err := r.api.Offer(r.ctx, media.Handlers{Message: func(data []byte) {
		_ = browser.Send(r.ctx, data)
		if e, err := realtime.Decode(data); err == nil && e.Type == realtime.TypeSessionCreated {
			_ = browser.Send(r.ctx, []byte(`{"type":"bridge.ready"}`))
		}
	}})
	if err != nil {
		return "", err
	}
	browser, answer, err = r.api.Answer(r.ctx, offer, media.Handlers{Message: func(data []byte) { _ = up.Send(r.ctx, data) }})
	if err != nil {
		return "", errors.Join(err, up.Close())
	}
	for from, to := range map[*rtc.Peer]*rtc.Peer{browser: up, up: browser} {
		flow := new(media.Flow)
		flow.Open()
		r.all.Go(func() { _ = from.Forward(r.ctx, to, flow) }) // it ends with the call
	}
	r.all.Go(func() {
		if call, err := r.client.CreateCall(r.ctx, upOffer, session); err == nil {
			_ = up.Accept(r.ctx, call.Answer) // a call that is not ready in time fails the benchmark
		}
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, browser, up)
	return answer, nil
}
