//go:build linux && (amd64 || arm64)

package code

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe" //nolint:depguard // seccomp(2) takes the filter by its address
)

// Numbers of the kernel's headers that package syscall lacks.
const (
	prSetNoNewPrivs       = 38
	seccompSetModeFilter  = 1
	seccompFlagTSync      = 1 // for all threads of the process, with no_new_privs
	seccompReturnKill     = 0x80000000
	seccompReturnErrno    = 0x00050000
	seccompReturnAllow    = 0x7fff0000
	seccompDataNumber     = 0  // offsets in struct seccomp_data
	seccompDataArch       = 4  //
	seccompDataFirstWord  = 16 // the low half of the first argument, on little-endian machines
	cloneThread           = 0x00010000
	callLoad, callIfEqual = syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS, syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K
	callIfSet, callReturn = syscall.BPF_JMP | syscall.BPF_JSET | syscall.BPF_K, syscall.BPF_RET | syscall.BPF_K
	callIfGreaterOrEqual  = syscall.BPF_JMP | syscall.BPF_JGE | syscall.BPF_K
)

// allowedCalls is all that Go's runtime needs to run on, with pipes that are open already. There is
// nothing in it to open a file, make a socket, start a program, or touch another process.
var allowedCalls = append([]uint32{
	syscall.SYS_READ, syscall.SYS_WRITE, syscall.SYS_CLOSE,
	syscall.SYS_MMAP, syscall.SYS_MUNMAP, syscall.SYS_MREMAP, syscall.SYS_MPROTECT, syscall.SYS_MADVISE, syscall.SYS_BRK, syscall.SYS_MINCORE,
	syscall.SYS_FUTEX, syscall.SYS_SET_ROBUST_LIST, syscall.SYS_SCHED_YIELD, syscall.SYS_SCHED_GETAFFINITY,
	syscall.SYS_NANOSLEEP, syscall.SYS_CLOCK_NANOSLEEP, syscall.SYS_CLOCK_GETTIME, syscall.SYS_GETTIMEOFDAY, syscall.SYS_RESTART_SYSCALL,
	syscall.SYS_RT_SIGACTION, syscall.SYS_RT_SIGPROCMASK, syscall.SYS_RT_SIGRETURN, syscall.SYS_SIGALTSTACK,
	syscall.SYS_GETPID, syscall.SYS_GETTID,
	syscall.SYS_EPOLL_CREATE1, syscall.SYS_EPOLL_CTL, syscall.SYS_EPOLL_PWAIT, syscall.SYS_EVENTFD2,
	syscall.SYS_EXIT, syscall.SYS_EXIT_GROUP,
	sysGetrandom, sysRseq,
}, allowedHere...)

// installFilter makes the kernel refuse this process, for good, all system calls but a few. It
// needs no privileges. An error means that the kernel, or what watches over it, does not do that.
// See seccomp(2), and Documentation/userspace-api/seccomp_filter.rst of Linux.
func installFilter() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("set no_new_privs: %w", errno)
	}
	filter := filterProgram(uint32(os.Getpid()))
	program := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	thread, _, errno := syscall.RawSyscall(sysSeccomp, seccompSetModeFilter, seccompFlagTSync, uintptr(unsafe.Pointer(&program)))
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

// filterClone allows new threads, but no new processes.
func filterClone() []syscall.SockFilter {
	return []syscall.SockFilter{
		// C libraries try clone3 first, whose flags a filter cannot read.
		jump(callIfEqual, sysClone3, 0, 1),
		statement(callReturn, errno(syscall.ENOSYS)),
		jump(callIfEqual, syscall.SYS_CLONE, 0, 4),
		statement(callLoad, seccompDataFirstWord),
		jump(callIfSet, cloneThread, 0, 1),
		statement(callReturn, seccompReturnAllow),
		statement(callReturn, errno(syscall.EPERM)),
	}
}

// filterProgram is the filter of the process pid.
func filterProgram(pid uint32) []syscall.SockFilter {
	p := filterBegin()
	for _, number := range allowedCalls {
		p = append(p, jump(callIfEqual, number, 0, 1), statement(callReturn, seccompReturnAllow))
	}
	return append(append(p, filterClone()...),
		// Signals to own threads, with which the runtime interrupts them.
		jump(callIfEqual, syscall.SYS_TGKILL, 0, 3),
		statement(callLoad, seccompDataFirstWord),
		jump(callIfEqual, pid, 0, 1),
		statement(callReturn, seccompReturnAllow),
		statement(callReturn, errno(syscall.EPERM)),
	)
}

// uncountedCalls make memory that neither the limit of the address space nor that of a folder
// counts: each descriptor of memfd_create may hold as much as a file, and System V's objects stay
// when nobody has them mapped.
var uncountedCalls = []uint32{sysMemfdCreate, sysMemfdSecret, syscall.SYS_SHMGET, syscall.SYS_MSGGET, syscall.SYS_SEMGET}

// pythonFilter is the filter of Python in the form that bubblewrap reads. Python may do what its
// namespaces allow, in one process: the limit of memory is one for each process, and a program
// that forks had it many times.
func pythonFilter() []byte {
	p := filterBegin()
	for _, number := range append(uncountedCalls, forkingCalls...) {
		p = append(p, jump(callIfEqual, number, 0, 1), statement(callReturn, errno(syscall.EPERM)))
	}
	p = append(append(p, filterClone()...), statement(callReturn, seccompReturnAllow))
	var b []byte
	for _, i := range p { // struct sock_filter; both machines are little-endian
		b = binary.LittleEndian.AppendUint16(b, i.Code)
		b = append(b, i.Jt, i.Jf)
		b = binary.LittleEndian.AppendUint32(b, i.K)
	}
	return b
}
