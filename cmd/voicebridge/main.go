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
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as it is below nohup
		signals = append(signals, syscall.SIGHUP) // the terminal was closed
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	// After the first signal, a second one ends the process at once, but for those of the terminal: it may send several.
	context.AfterFunc(ctx, func() { signal.Ignore(syscall.SIGHUP); stop() })
	os.Exit(execute(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
