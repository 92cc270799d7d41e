package main

import (
	"runtime"
	"runtime/debug"
)

// releaseMemory gives back memory that only the start or a burst of new calls needed: buffers, which
// would also let the heap grow before the next collection, and pages of the program itself.
func releaseMemory() {
	runtime.GC() // what a sync.Pool holds is freed by the second collection
	debug.FreeOSMemory()
	releaseProgram()
}
