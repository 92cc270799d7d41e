//go:build !unix

package mcptool

import "os/exec"

func ownGroup(*exec.Cmd) {}

func terminateGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func guard(*exec.Cmd, string, []string) (release func()) { return func() {} }
