package main

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// releaseMemory gives back what only the start has needed: buffers, which would also
// let the heap grow to twice their size before it is looked through, and the pages of
// the program itself. The kernel maps those 64 KB at a time around each that is used,
// which is nearly all of the program in the end; those that are used again come back
// from its cache, one by one.
func releaseMemory() {
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

// mappingsOf picks the mappings of a file that nobody writes to, of a table as proc(5)
// describes it: "address-address perms offset dev inode path".
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
