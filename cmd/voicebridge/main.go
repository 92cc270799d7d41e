// Command voicebridge puts a WebRTC peer between a browser and a realtime voice model and keeps every
// conversation in SQL.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"voicebridge/toolkit/code"
	"voicebridge/toolkit/mcptool"
)

func main() {
	if code.IsChild(os.Args) {
		os.Exit(code.RunChild(os.Args, os.Stdin, os.Stdout))
	}
	if err := mcptool.HideProcess(); err != nil { // its environment contains keys
		fmt.Fprintln(os.Stderr, "warning:", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal, a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(execute(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
