package main

import "syscall"

// releasePages unmaps the pages of a file's mapping. Pages that the kernel refuses to unmap stay.
func releasePages(m mapping) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.start, m.size, syscall.MADV_DONTNEED)
}
