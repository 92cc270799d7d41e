//go:build !unix

package code

import "os/exec"

func lowerPriority(int) {}

func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }
