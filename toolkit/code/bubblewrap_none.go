//go:build !linux

package code

import (
	"errors"
	"fmt"
	"os/exec"
)

func (s *Sandbox) bubblewrap() (string, error) {
	return "", fmt.Errorf("%w: it needs Linux and bubblewrap", errNoPython)
}

func explainBubblewrap(o Outcome) string { return o.Error }

func pythonArguments(Config, string, string) []string { return nil }

func dropRoot(*exec.Cmd) {}

func execPython([]string) error { return errors.ErrUnsupported }
