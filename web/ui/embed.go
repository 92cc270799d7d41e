// Package ui holds the built page as a file system.
package ui

import (
	"embed"
	"io/fs"
)

// The "all:" prefix includes files whose names begin with "." or "_".
//
//go:embed all:dist
var dist embed.FS

// Dist returns the page's files with index.html at the root. It is read-only and safe for
// concurrent use.
func Dist() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		// fs.Sub fails only for an invalid path, and this one is constant.
		panic(err)
	}
	return sub
}
