//go:build !unix

package mcptool

import "errors"

func ignoreTerm() {}

func makePipe(string) error { return errors.ErrUnsupported }
