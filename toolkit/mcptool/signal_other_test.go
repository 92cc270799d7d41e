//go:build !unix

package mcptool

import "errors"

func ignoreTerm() {}

func makePipe(string) error { return errors.New("there are no named pipes here") }
