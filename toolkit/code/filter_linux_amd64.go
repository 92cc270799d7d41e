package code

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const auditArch = unix.AUDIT_ARCH_X86_64

// allowedHere are the system calls that only this architecture has in this form.
var allowedHere = []uint32{syscall.SYS_EPOLL_WAIT, syscall.SYS_ARCH_PRCTL, syscall.SYS_TIME}

// forkingCalls are the system calls besides clone that make processes.
var forkingCalls = []uint32{syscall.SYS_FORK, syscall.SYS_VFORK}

// pythonHere are system calls of Python that only this architecture has in this form.
var pythonHere = []uint32{
	unix.SYS_OPEN, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_NEWFSTATAT, unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_PIPE,
	unix.SYS_DUP2, unix.SYS_ACCESS, unix.SYS_ALARM, unix.SYS_PAUSE, unix.SYS_GETDENTS, unix.SYS_RENAME, unix.SYS_MKDIR,
	unix.SYS_RMDIR, unix.SYS_CREAT, unix.SYS_LINK, unix.SYS_UNLINK, unix.SYS_SYMLINK, unix.SYS_READLINK, unix.SYS_CHMOD,
	unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_TIME, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
	unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD, unix.SYS_SIGNALFD, unix.SYS_INOTIFY_INIT,
	unix.SYS_ARCH_PRCTL, unix.SYS_GETPGRP,
}
