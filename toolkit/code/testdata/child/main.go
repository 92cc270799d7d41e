// Command child is a child of the sandbox and nothing else, for tests under the race detector: the
// engine is twenty times slower there, and needs memory that its limits do not include.
package main

import (
	"os"

	"voicebridge/toolkit/code"
)

func main() {
	if !code.IsChild(os.Args) {
		os.Exit(2)
	}
	os.Exit(code.RunChild(os.Args, os.Stdin, os.Stdout))
}
