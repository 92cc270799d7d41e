package code

import "syscall"

// Numbers of Linux on amd64 that package syscall lacks.
const (
	auditArch      = 0xc000003e // AUDIT_ARCH_X86_64
	sysSeccomp     = 317
	sysGetrandom   = 318
	sysMemfdCreate = 319
	sysRseq        = 334
	sysClone3      = 435
	sysMemfdSecret = 447
)

// allowedHere are calls that other machines have in another form only.
var allowedHere = []uint32{syscall.SYS_EPOLL_WAIT, syscall.SYS_ARCH_PRCTL, syscall.SYS_TIME}

// forkingCalls make processes besides clone, which other machines have for all.
var forkingCalls = []uint32{syscall.SYS_FORK, syscall.SYS_VFORK}
