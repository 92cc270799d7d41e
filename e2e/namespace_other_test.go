//go:build !linux

package e2e

import (
	"errors"
	"testing"
)

func namespace(*testing.T) (place, error) { return place{}, errors.ErrUnsupported }
