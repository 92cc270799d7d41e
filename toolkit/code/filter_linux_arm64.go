package code

// Numbers of Linux on arm64 that package syscall lacks.
const (
	auditArch      = 0xc00000b7 // AUDIT_ARCH_AARCH64
	sysSeccomp     = 277
	sysGetrandom   = 278
	sysMemfdCreate = 279
	sysRseq        = 293
	sysClone3      = 435
	sysMemfdSecret = 447
)

// allowedHere are calls that other machines have in another form only.
var allowedHere []uint32

// forkingCalls make processes besides clone.
var forkingCalls []uint32
