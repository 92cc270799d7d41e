package code

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// allowedHere are the system calls that only this architecture has in this form.
var allowedHere []uint32

// forkingCalls are the system calls besides clone that make processes.
var forkingCalls []uint32

// pythonHere are system calls of Python that only this architecture has in this form.
var pythonHere = []uint32{unix.SYS_FSTATAT}
