package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/cmd/voicebridge/internal/bench"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
)

// BenchmarkBesideRelay measures 50 calls through a bare relay, which passes on audio and events and does nothing else, and
// then through the bridge, and reports the bridge's figures divided by the relay's. Run it on a quiet machine, for five
// pairs: go test ./cmd/voicebridge -run '^$' -bench BesideRelay -benchtime 5x
func BenchmarkBesideRelay(b *testing.B) {
	sums := map[string][2]float64{}
	for b.Loop() {
		for i, mode := range []string{"serve", "relay"} {
			report, err := bench.Run(b.Context(), bench.Config{Calls: []int{50}, Duration: 10 * time.Second, Events: 20, Bridge: byTest(b, mode)})
			if err != nil {
				b.Fatal(err)
			}
			r := report.Rounds[0]
			figures := map[string]float64{"audio-p50": r.Audio.P50, "audio-p99": r.Audio.P99, "words-p50": r.Words.P50, "ready-p50": r.Ready.P50}
			if p := r.Bridge; p != nil {
				figures["cpu"], figures["memory"] = p.CPUPerCall, p.RSSPerCall
			}
			for name, v := range figures {
				sum := sums[name]
				sum[i] += v
				sums[name] = sum
			}
		}
	}
	for name, sum := range sums {
		b.ReportMetric(sum[0]/sum[1], name+"-ratio")
	}
}

// serveRelay serves until ctx ends, with the settings of the bridge.
func serveRelay(ctx context.Context, out io.Writer) error {
	api, err := rtc.New(rtc.Config{Loopback: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", os.Getenv("VOICEBRIDGE_LISTEN"))
	if err != nil {
		return errors.Join(err, api.Close())
	}
	r := newRelay(ctx, api, &realtime.Client{BaseURL: os.Getenv("OPENAI_BASE_URL"), HTTP: http.DefaultClient})
	srv := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	fmt.Fprintf(out, "relay on http://%s\n", ln.Addr())
	_ = srv.Serve(ln) // it ends by Close
	return errors.Join(r.Close(), api.Close())
}

// TestRelay measures two calls for a second through the relay.
func TestRelay(t *testing.T) {
	t.Parallel()
	r, table := measured(t, benchCommand{Calls: []int{2}, Seconds: 1, Events: 20}, byTest(t, "relay"))
	if len(r.Rounds) != 1 || r.Rounds[0].Words.Sent == 0 || r.Rounds[0].Words.Lost >= r.Rounds[0].Words.Sent || !strings.Contains(table, "words") {
		t.Errorf("%+v\n%s", r, table)
	}
}

// maxOffer bounds the body of a call.
const maxOffer = 1 << 20

// bareRelay is what the bridge is compared with: it answers calls, makes a second one for each, passes on audio and events, and
// does nothing else. It waits for nothing: a caller is answered at once.
type bareRelay struct {
	ctx    context.Context //nolint:containedctx // of the calls, which outlive their requests
	api    *rtc.API
	client *realtime.Client
	mux    *http.ServeMux
	all    sync.WaitGroup

	mu    sync.Mutex
	calls []*rtc.Peer
}

// newRelay returns a relay of calls to client's upstream. They live until ctx ends; Close must be called.
func newRelay(ctx context.Context, api *rtc.API, client *realtime.Client) *bareRelay {
	r := &bareRelay{ctx: ctx, api: api, client: client, mux: http.NewServeMux()}
	r.mux.HandleFunc("POST /v1/realtime/calls", r.create)
	r.mux.HandleFunc("POST /v1/realtime/calls/{id}/hangup", func(http.ResponseWriter, *http.Request) {}) // its peers are closed by the other side
	return r
}

func (r *bareRelay) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.mux.ServeHTTP(w, req) }

// Close ends what is left of the calls, once nothing is served any more and ctx has ended.
func (r *bareRelay) Close() error {
	var errs []error
	for _, p := range r.calls {
		errs = append(errs, p.Close())
	}
	r.all.Wait()
	return errors.Join(errs...)
}

func (r *bareRelay) create(w http.ResponseWriter, req *http.Request) {
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
func (r *bareRelay) call(offer string, session []byte) (answer string, err error) {
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
