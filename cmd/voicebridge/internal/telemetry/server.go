package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// Serve answers operators on ln until ctx ends: /metrics with the handler metrics, /debug/pprof
// with the profiles of the process, /healthz. It closes ln.
func Serve(ctx context.Context, ln net.Listener, metrics http.Handler, log *slog.Logger) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	for path, serve := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol,
		"trace": pprof.Trace,
	} {
		mux.HandleFunc("GET /debug/pprof/"+path, serve)
	}
	srv := &http.Server{
		Handler: localNames(ln, mux), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 64 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		// A running profile ends with the process.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve operators: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if srv.Shutdown(stop) != nil {
		_ = srv.Close() // a running profile is no use without the process
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve operators: %w", err)
	}
	return nil
}

// localNames rejects, on a loopback port, requests for the name of another machine: by DNS
// rebinding, a page in a local browser could read the port.
func localNames(ln net.Listener, next http.Handler) http.Handler {
	address, ok := ln.Addr().(*net.TCPAddr)
	if !ok || !address.IP.IsLoopback() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "ask for this machine by localhost or its loopback address", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
