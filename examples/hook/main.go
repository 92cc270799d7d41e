// Command hook receives what voicebridge posts to a hook, and prints what comes from it:
//
//	HOOK_SECRET=whsec_… go run ./examples/hook -listen 127.0.0.1:9000
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9000", "address")
	flag.Parse()
	verifier, err := standardwebhooks.NewWebhook(os.Getenv("HOOK_SECRET")) //nolint:forbidigo // an example
	if err != nil {
		fail(fmt.Errorf("HOOK_SECRET: %w", err))
	}
	var mu sync.Mutex
	seen := map[string]bool{} // in a database, if it must outlive this process: an event may come twice
	http.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 8<<20))
		if err != nil || verifier.Verify(body, r.Header) != nil {
			http.Error(w, "wrong signature", http.StatusUnauthorized)
			return
		}
		var event struct {
			Type string
			Data json.RawMessage
		}
		mu.Lock()
		defer mu.Unlock()
		if id := r.Header.Get("webhook-id"); !seen[id] && json.Unmarshal(body, &event) == nil {
			seen[id] = true
			fmt.Fprintln(os.Stdout, event.Type, string(event.Data))
		}
	})
	fail(http.ListenAndServe(*listen, nil)) //nolint:gosec // an example
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
