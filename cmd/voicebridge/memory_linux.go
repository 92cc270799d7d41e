package main

import "syscall"

// releasePages unmaps the pages of a file's mapping. What the kernel refuses is left as
// it is.
func releasePages(m mapping) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.start, m.size, syscall.MADV_DONTNEED)
}
