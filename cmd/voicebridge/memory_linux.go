package main

import "syscall"

// releasePages drops the resident pages of a file's mapping, except for those that the kernel refuses
// to drop.
func releasePages(m mapping) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.start, m.size, syscall.MADV_DONTNEED)
}
