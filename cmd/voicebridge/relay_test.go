package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"slices"
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

var profiles = flag.String("profiles", "", "a folder for the heap profiles of BenchmarkKept, and for BenchmarkSetUps")

// BenchmarkKept measures what a call of each kind keeps of objects and stacks, in KiB, beside a bare relay: the client's
// transport and the model's, while nobody speaks, while both do, and with the model's words. Unlike times it can be trusted
// on a machine with other work: go test ./cmd/voicebridge -run '^$' -bench Kept -benchtime 1x
func BenchmarkKept(b *testing.B) {
	idle, speaking, words, recorded := bench.Config{Silent: true}, bench.Config{}, bench.Config{Events: 5}, bench.Config{Events: 5, Record: true}
	keep := func(b *testing.B, mode string, c bench.Config) {
		for b.Loop() {
			c.Calls, c.Duration, c.Bridge = []int{20}, 3*time.Second, byTest(b, mode)
			c.Kept = func(profile []byte) {
				if *profiles != "" {
					name := strings.NewReplacer("BenchmarkKept/", "", "/", "-").Replace(b.Name())
					must(b, os.WriteFile(filepath.Join(*profiles, name+".heap"), profile, 0o600))
				}
			}
			report, err := bench.Run(b.Context(), c)
			must(b, err)
			b.ReportMetric(report.Rounds[0].KeptPerCall, "KiB/call")
			b.ReportMetric(0, "ns/op")
		}
	}
	for load, c := range map[string]bench.Config{"idle": idle, "speaking": speaking, "words": words} {
		b.Run("relay/"+load, func(b *testing.B) { keep(b, "relay", c) })
		for kind, sockets := range map[string][2]bool{"rtc-rtc": {}, "ws-rtc": {true, false}, "rtc-ws": {false, true}, "ws-ws": {true, true}} {
			c.SocketClients, c.Socket = sockets[0], sockets[1]
			b.Run(kind+"/"+load, func(b *testing.B) { keep(b, "serve", c) })
		}
	}
	b.Run("rtc-rtc/recorded", func(b *testing.B) { keep(b, "serve", recorded) })
}

// BenchmarkSetUps measures what it takes to set up a call, beside a bare relay: processor time, and the time from the offer
// until the caller is heard. With -profiles it leaves the processor's profile of both, and the steps in ms after the request.
func BenchmarkSetUps(b *testing.B) {
	for _, mode := range []string{"relay", "serve"} {
		b.Run(mode, func(b *testing.B) {
			for b.Loop() {
				command := byTest(b, mode)
				dir := cmp.Or(*profiles, b.TempDir())
				command.Environ = append(command.Environ, traced+"="+filepath.Join(dir, mode), "VOICEBRIDGE_LOG__LEVEL=info", "VOICEBRIDGE_LOG__FORMAT=json")
				report, err := bench.Run(b.Context(), bench.Config{Calls: []int{100}, Duration: time.Second, Silent: true, Bridge: command})
				must(b, err)
				b.ReportMetric(report.Rounds[0].Ready.P50/1e3, "ready-p50-ms")
				if p := report.Rounds[0].Bridge; p != nil {
					b.ReportMetric(p.SetUpCPU, "cpu-ms")
				}
				b.ReportMetric(0, "ns/op")
				log, err := os.ReadFile(filepath.Join(dir, mode+".log"))
				must(b, err)
				must(b, os.WriteFile(filepath.Join(dir, mode+".steps"), []byte(medianSteps(log, 0.25)), 0o600))
			}
		})
	}
}

// BenchmarkConversation measures the processor time of a call, in % of a core, in which there is always somebody who is silent and
// whose silence is not sent, beside one in which all is sent, and a bare relay of that:
// go test ./cmd/voicebridge -run '^$' -bench Conversation -benchtime 5x
func BenchmarkConversation(b *testing.B) {
	for _, k := range []struct {
		name, mode string
		speech     int
	}{{"relay/speech", "relay", 100}, {"call/speech", "serve", 100}, {"call/conversation", "serve", 50}, {"relay/conversation", "relay", 50}} {
		b.Run(k.name, func(b *testing.B) {
			sum, n := 0.0, 0
			for b.Loop() {
				report, err := bench.Run(b.Context(), bench.Config{Calls: []int{50}, Duration: 8 * time.Second, Speech: k.speech, Bridge: byTest(b, k.mode)})
				if err != nil {
					b.Fatal(err)
				}
				if p := report.Rounds[0].Bridge; p != nil {
					sum, n = sum+p.CPUPerCall, n+1
				}
			}
			b.ReportMetric(sum/float64(n), "cpu-%/call")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// serveRelay serves until ctx ends, with the settings of the bridge.
func serveRelay(ctx context.Context, out io.Writer) error {
	api, err := rtc.New(rtc.Config{Loopback: true, Bare: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", os.Getenv("VOICEBRIDGE_LISTEN"))
	if err != nil {
		return errors.Join(err, api.Close())
	}
	r := newRelay(ctx, api, &realtime.Client{BaseURL: os.Getenv("OPENAI_BASE_URL"), HTTP: http.DefaultClient})
	r.mux.Handle("GET /debug/pprof/heap", pprof.Handler("heap"))
	operators, err := new(net.ListenConfig).Listen(ctx, "tcp", os.Getenv("VOICEBRIDGE_METRICS__LISTEN"))
	if err != nil {
		return errors.Join(err, api.Close(), ln.Close())
	}
	srv := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	fmt.Fprintf(out, "relay on http://%s\n", ln.Addr())
	r.all.Go(func() { _ = srv.Serve(operators) }) // both end by Close
	_ = srv.Serve(ln)
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
	_, _ = io.WriteString(w, strings.Replace(answer, "a=rtcp-fb:111 nack\r\n", "", 1)) // it repeats nothing
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

// medianSteps reads how calls were set up from a log in JSON, and draws the medians of when each step began and ended, a block for each
// scale ms.
func medianSteps(log []byte, scale float64) string {
	type step struct{ began, ended []float64 }
	steps := map[string]*step{}
	for line := range bytes.Lines(log) {
		var entry map[string]any
		if json.Unmarshal(line, &entry) != nil || entry["msg"] != "call set up" {
			continue
		}
		for name, value := range entry {
			var from, to float64
			text, _ := value.(string)
			if n, _ := fmt.Sscanf(text, "%f-%f", &from, &to); n == 2 && strings.Contains(name, ".") {
				s := cmp.Or(steps[name], new(step))
				s.began, s.ended = append(s.began, from), append(s.ended, to)
				steps[name] = s
			}
		}
	}
	var lines []string
	for name, s := range steps {
		slices.Sort(s.began)
		slices.Sort(s.ended)
		from, to := s.began[len(s.began)/2], s.ended[len(s.ended)/2]
		bar := strings.Repeat(" ", int(from/scale)) + strings.Repeat("█", max(int(to/scale)-int(from/scale), 1))
		lines = append(lines, fmt.Sprintf("%6.1f %6.1f  %-18s %s\n", from, to, name, bar))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
