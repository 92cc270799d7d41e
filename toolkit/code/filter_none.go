//go:build !linux || (!amd64 && !arm64)

package code

import "errors"

// installFilter has no filter for this system.
func installFilter() error { return errors.ErrUnsupported }

// pythonFilter has none either; what Python may start is then limited by number only.
func pythonFilter() []byte { return nil }
