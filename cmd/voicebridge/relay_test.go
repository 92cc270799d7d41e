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
	"testing"
	"time"

	"voicebridge/cmd/voicebridge/internal/bench"
	"voicebridge/realtime"
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
	r := bench.NewRelay(ctx, api, &realtime.Client{BaseURL: os.Getenv("OPENAI_BASE_URL"), HTTP: http.DefaultClient})
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
