package code

import "syscall"

// Numbers of Linux on amd64 that package syscall lacks.
const (
	auditArch    = 0xc000003e // AUDIT_ARCH_X86_64
	sysSeccomp   = 317
	sysGetrandom = 318
	sysRseq      = 334
	sysClone3    = 435
)

// allowedHere are calls that other machines have in another form only.
var allowedHere = []uint32{syscall.SYS_EPOLL_WAIT, syscall.SYS_ARCH_PRCTL, syscall.SYS_TIME}
