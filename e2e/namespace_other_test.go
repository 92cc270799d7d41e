//go:build !linux

package e2e

import (
	"errors"
	"testing"
)

func namespace(*testing.T) (location, error) { return location{}, errors.ErrUnsupported }
