package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// releaseMemory gives back memory that only the start or a burst of new calls needed: buffers, which
// would also let the heap grow before the next collection, and pages of the program itself. The
// kernel maps 64 KB around each page used, in the end nearly the whole program; pages that are used
// again come back from its cache one by one.
func releaseMemory() {
	runtime.GC() // what a sync.Pool holds is freed by the second collection
	debug.FreeOSMemory()
	program, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return // not on Linux
	}
	for _, m := range mappingsOf(string(maps), program) {
		releasePages(m)
	}
}
