// Command voicebridge puts a WebRTC peer between a browser and a realtime voice
// model and keeps every conversation in SQL.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"voicebridge/toolkit/code"
)

func main() {
	if code.IsChild(os.Args) {
		os.Exit(code.RunChild(os.Args, os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the second one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(execute(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
