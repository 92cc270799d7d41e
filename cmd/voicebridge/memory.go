package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// releaseMemory gives back memory that only the start needed, or a burst of new calls: buffers,
// which would also let the heap grow before the next collection, and pages of the program itself. The kernel maps 64 KB
// around each page used, in the end nearly the whole program; pages used again come back from its
// cache one by one.
func releaseMemory() {
	runtime.GC() // what a sync.Pool holds goes with the second collection
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

// mapping is a part of the address space.
type mapping struct{ start, size uintptr }

// mappingsOf picks the mappings of a file that are not writable from a table as in proc(5):
// "address-address perms offset dev inode path".
func mappingsOf(table, file string) (found []mapping) {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) != 6 || fields[5] != file || strings.Contains(fields[1], "w") {
			continue
		}
		from, to, ok := strings.Cut(fields[0], "-")
		start, err := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if ok && err == nil && err2 == nil && end > start {
			found = append(found, mapping{uintptr(start), uintptr(end - start)})
		}
	}
	return found
}
