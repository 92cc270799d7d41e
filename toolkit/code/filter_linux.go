//go:build linux && (amd64 || arm64)

package code

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"unsafe" //nolint:depguard // seccomp(2) takes the filter by its address

	"golang.org/x/sys/unix"
)

// Numbers of the kernel's headers that package syscall lacks.
const (
	seccompSetModeFilter  = 1
	seccompFlagTSync      = 1 // for all threads of the process, with no_new_privs
	seccompReturnKill     = 0x80000000
	seccompReturnErrno    = 0x00050000
	seccompReturnAllow    = 0x7fff0000
	seccompDataNumber     = 0  // offsets in struct seccomp_data
	seccompDataArch       = 4  //
	seccompDataFirstWord  = 16 // the low half of the first argument, on little-endian machines
	cloneThread           = 0x00010000
	callLoad              = syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS
	callIfEqual           = syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K
	callIfSet, callReturn = syscall.BPF_JMP | syscall.BPF_JSET | syscall.BPF_K, syscall.BPF_RET | syscall.BPF_K
	callIfGreaterOrEqual  = syscall.BPF_JMP | syscall.BPF_JGE | syscall.BPF_K
)

// allowedCalls is all that Go's runtime needs once its pipes are open. It contains nothing to open
// files, make sockets, start programs, or touch other processes.
var allowedCalls = append([]uint32{
	syscall.SYS_READ, syscall.SYS_WRITE, syscall.SYS_CLOSE,
	syscall.SYS_MMAP, syscall.SYS_MUNMAP, syscall.SYS_MREMAP, syscall.SYS_MPROTECT, syscall.SYS_MADVISE,
	syscall.SYS_BRK, syscall.SYS_MINCORE, syscall.SYS_FUTEX, syscall.SYS_SET_ROBUST_LIST, syscall.SYS_SCHED_YIELD,
	syscall.SYS_SCHED_GETAFFINITY, syscall.SYS_NANOSLEEP, syscall.SYS_CLOCK_NANOSLEEP, syscall.SYS_CLOCK_GETTIME,
	syscall.SYS_GETTIMEOFDAY, syscall.SYS_RESTART_SYSCALL, syscall.SYS_RT_SIGACTION, syscall.SYS_RT_SIGPROCMASK,
	syscall.SYS_RT_SIGRETURN, syscall.SYS_SIGALTSTACK, syscall.SYS_GETPID, syscall.SYS_GETTID,
	syscall.SYS_EPOLL_CREATE1, syscall.SYS_EPOLL_CTL, syscall.SYS_EPOLL_PWAIT, syscall.SYS_EVENTFD2, syscall.SYS_EXIT,
	syscall.SYS_EXIT_GROUP, unix.SYS_GETRANDOM, unix.SYS_RSEQ,
}, allowedHere...)

// installFilter makes the kernel permanently refuse this process all but a few system calls. It
// needs no privileges. An error means that the kernel, or a sandbox around it, does not allow that.
// See seccomp(2), and Documentation/userspace-api/seccomp_filter.rst of Linux.
func installFilter() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	filter := filterProgram(uint32(os.Getpid()))
	program := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	thread, _, errno := syscall.RawSyscall(unix.SYS_SECCOMP, seccompSetModeFilter, seccompFlagTSync,
		uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(&program)
	switch {
	case errno != 0:
		return fmt.Errorf("install seccomp filter: %w", errno)
	case thread != 0:
		return fmt.Errorf("install seccomp filter: thread %d cannot take it", thread)
	default:
		return nil
	}
}

func errno(e syscall.Errno) uint32 { return seccompReturnErrno | uint32(e) }

func statement(code int, k uint32) syscall.SockFilter {
	return syscall.SockFilter{Code: uint16(code), K: k}
}

func jump(code int, k uint32, yes, no uint8) syscall.SockFilter {
	return syscall.SockFilter{Code: uint16(code), Jt: yes, Jf: no, K: k}
}

// filterBegin loads the number of the call, which must be one of this machine.
func filterBegin() []syscall.SockFilter {
	return []syscall.SockFilter{
		statement(callLoad, seccompDataArch),
		jump(callIfEqual, auditArch, 1, 0),
		statement(callReturn, seccompReturnKill),
		statement(callLoad, seccompDataNumber),
		// Numbers from here on are those of another ABI (x32).
		jump(callIfGreaterOrEqual, 0x40000000, 0, 1),
		statement(callReturn, seccompReturnKill),
	}
}

// filterClone allows new threads but no new processes.
func filterClone() []syscall.SockFilter {
	return []syscall.SockFilter{
		// C libraries try clone3 first, whose flags a filter cannot read.
		jump(callIfEqual, unix.SYS_CLONE3, 0, 1),
		statement(callReturn, errno(syscall.ENOSYS)),
		jump(callIfEqual, syscall.SYS_CLONE, 0, 4),
		statement(callLoad, seccompDataFirstWord),
		jump(callIfSet, cloneThread, 0, 1),
		statement(callReturn, seccompReturnAllow),
		statement(callReturn, errno(syscall.EPERM)),
	}
}

// filterCalls answers calls.
func filterCalls(numbers []uint32, answer uint32) (p []syscall.SockFilter) {
	for _, number := range numbers {
		p = append(p, jump(callIfEqual, number, 0, 1), statement(callReturn, answer))
	}
	return p
}

// filterProgram is the filter of the process pid.
func filterProgram(pid uint32) []syscall.SockFilter {
	return append(slices.Concat(filterBegin(), filterCalls(allowedCalls, seccompReturnAllow), filterClone()),
		// Signals to its own threads, with which the runtime preempts them.
		jump(callIfEqual, syscall.SYS_TGKILL, 0, 3),
		statement(callLoad, seccompDataFirstWord),
		jump(callIfEqual, pid, 0, 1),
		statement(callReturn, seccompReturnAllow),
		statement(callReturn, errno(syscall.EPERM)),
	)
}

// pythonCalls is what Python and its standard library need, besides threads: files, memory, time,
// signals, and sockets, which lead nowhere in a network namespace of their own. What is not in it
// makes other processes, memory that no limit counts (memfd_create, System V), namespaces and
// mounts, or reaches parts of the kernel that programs seldom need and attacks often do: ptrace, bpf,
// io_uring, userfaultfd, keyrings, perf events.
var pythonCalls = slices.Concat([]uint32{
	// files
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_FSTAT, unix.SYS_LSEEK, unix.SYS_IOCTL, unix.SYS_PREAD64,
	unix.SYS_PWRITE64, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_PREADV2,
	unix.SYS_PWRITEV2, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_SENDFILE, unix.SYS_FCNTL, unix.SYS_FLOCK, unix.SYS_FSYNC,
	unix.SYS_FDATASYNC, unix.SYS_TRUNCATE, unix.SYS_FTRUNCATE, unix.SYS_GETCWD, unix.SYS_CHDIR, unix.SYS_FCHDIR,
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UMASK, unix.SYS_STATFS,
	unix.SYS_FSTATFS, unix.SYS_FADVISE64, unix.SYS_FALLOCATE, unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_MKDIRAT,
	unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_READLINKAT,
	unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_UTIMENSAT, unix.SYS_STATX, unix.SYS_GETDENTS64, unix.SYS_PIPE2,
	unix.SYS_COPY_FILE_RANGE, unix.SYS_SPLICE, unix.SYS_TEE, unix.SYS_CLOSE_RANGE, unix.SYS_GETXATTR,
	unix.SYS_LGETXATTR, unix.SYS_FGETXATTR, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_FLISTXATTR,
	unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_INOTIFY_RM_WATCH,
	// memory
	unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_MUNMAP, unix.SYS_BRK, unix.SYS_MREMAP, unix.SYS_MSYNC, unix.SYS_MINCORE,
	unix.SYS_MADVISE,
	// threads and processes: the first call of Python is execve, and bubblewrap waits
	unix.SYS_EXECVE, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_WAIT4, unix.SYS_WAITID, unix.SYS_FUTEX,
	unix.SYS_SET_TID_ADDRESS, unix.SYS_SET_ROBUST_LIST, unix.SYS_GET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_MEMBARRIER,
	unix.SYS_PRCTL, unix.SYS_PRLIMIT64, unix.SYS_GETRLIMIT, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY,
	unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_GETSCHEDULER, unix.SYS_SCHED_GET_PRIORITY_MAX,
	unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_GETPRIORITY, unix.SYS_SETPRIORITY, unix.SYS_GETCPU, unix.SYS_GETPID,
	unix.SYS_GETTID, unix.SYS_GETPPID, unix.SYS_GETPGID, unix.SYS_GETSID, unix.SYS_SETSID, unix.SYS_GETUID,
	unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETGROUPS, unix.SYS_GETRESUID, unix.SYS_GETRESGID,
	unix.SYS_CAPGET, unix.SYS_UNAME, unix.SYS_SYSINFO, unix.SYS_TIMES, unix.SYS_GETRUSAGE, unix.SYS_GETRANDOM,
	// signals and time
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPENDING,
	unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGSUSPEND, unix.SYS_SIGALTSTACK, unix.SYS_KILL, unix.SYS_TKILL,
	unix.SYS_TGKILL, unix.SYS_SIGNALFD4, unix.SYS_RESTART_SYSCALL, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP,
	unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_GETTIMEOFDAY, unix.SYS_GETITIMER, unix.SYS_SETITIMER,
	unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_GETTIME, unix.SYS_TIMER_GETOVERRUN,
	unix.SYS_TIMER_DELETE, unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_SETTIME, unix.SYS_TIMERFD_GETTIME,
	// waiting and sockets
	unix.SYS_PSELECT6, unix.SYS_PPOLL, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT,
	unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND,
	unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_SHUTDOWN, unix.SYS_SENDTO, unix.SYS_RECVFROM,
	unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SENDMMSG, unix.SYS_RECVMMSG, unix.SYS_GETSOCKNAME,
	unix.SYS_GETPEERNAME, unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKOPT,
}, pythonHere)

// pythonFilter returns Python's filter in the form that bubblewrap reads. Python runs as one
// process: the memory limit is per process, so a program that forks would multiply it. Calls that
// make processes or memory fail with EPERM; all others that are not allowed fail with ENOSYS, so
// that libraries choose another way.
func pythonFilter() []byte {
	forbidden := append(forkingCalls, unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET, unix.SYS_SHMGET, unix.SYS_MSGGET,
		unix.SYS_SEMGET)
	p := append(slices.Concat(filterBegin(), filterCalls(pythonCalls, seccompReturnAllow), filterClone(),
		filterCalls(forbidden, errno(syscall.EPERM))), statement(callReturn, errno(syscall.ENOSYS)))
	b, _ := binary.Append(nil, binary.LittleEndian, p) // of a fixed size, as on both machines
	return b
}
