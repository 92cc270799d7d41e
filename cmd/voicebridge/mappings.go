package main

import (
	"strconv"
	"strings"
)

// mapping is a range of the address space: its first address and its length in bytes.
type mapping struct{ start, size uintptr }

// mappingsOf returns the read-only mappings of a file from a table such as /proc/self/maps, whose lines
// are "address-address perms offset dev inode path" (proc(5)).
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
