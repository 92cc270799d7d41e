package code

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// allowedHere are calls that other machines have in another form only.
var allowedHere []uint32

// forkingCalls make processes besides clone.
var forkingCalls []uint32

// pythonHere are calls of Python that other machines have in another form only.
var pythonHere = []uint32{unix.SYS_FSTATAT}
