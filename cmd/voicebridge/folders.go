package main

import (
	"path/filepath"
	"strings"
)

// dataDir returns the folder of what is kept in files: that of the SQLite database, else data.
func dataDir(address string) string {
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		return filepath.Dir(path)
	}
	return "data"
}

// spoolDir returns the folder of the spool's file.
func spoolDir(address string) string { return filepath.Join(dataDir(address), "spool") }
