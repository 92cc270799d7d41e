package main

import (
	"os"
	"syscall"

	"github.com/prometheus/procfs"
)

// releaseProgram drops the resident pages of the program's file, except for those that the kernel refuses
// to drop. It maps 64 KB around each page used, in the end nearly the whole program; pages that are used
// again come back from its cache one by one.
func releaseProgram() {
	program, err := os.Executable()
	self, errSelf := procfs.Self()
	if err != nil || errSelf != nil {
		return
	}
	maps, _ := self.ProcMaps()
	for _, m := range maps {
		if m.Pathname == program && !m.Perms.Write {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.StartAddr, m.EndAddr-m.StartAddr, syscall.MADV_DONTNEED)
		}
	}
}
