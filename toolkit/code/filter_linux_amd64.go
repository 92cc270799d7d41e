package code

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const auditArch = unix.AUDIT_ARCH_X86_64

// allowedHere are calls that other machines have in another form only.
var allowedHere = []uint32{syscall.SYS_EPOLL_WAIT, syscall.SYS_ARCH_PRCTL, syscall.SYS_TIME}

// forkingCalls make processes besides clone, which other machines have for all.
var forkingCalls = []uint32{syscall.SYS_FORK, syscall.SYS_VFORK}

// pythonHere are calls of Python that other machines have in another form only.
var pythonHere = []uint32{
	unix.SYS_OPEN, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_NEWFSTATAT, unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_PIPE, unix.SYS_DUP2, unix.SYS_ACCESS,
	unix.SYS_ALARM, unix.SYS_PAUSE, unix.SYS_GETDENTS, unix.SYS_RENAME, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_CREAT, unix.SYS_LINK, unix.SYS_UNLINK,
	unix.SYS_SYMLINK, unix.SYS_READLINK, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_TIME, unix.SYS_UTIME, unix.SYS_UTIMES,
	unix.SYS_FUTIMESAT, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD, unix.SYS_SIGNALFD, unix.SYS_INOTIFY_INIT,
	unix.SYS_ARCH_PRCTL, unix.SYS_GETPGRP,
}
