//go:build linux

package code

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"voicebridge/internal/testkit"
)

// pythonRig returns a rig, and whether Python works on this host. Where it does not, calls
// must fail and say why; so every test below checks something on every host.
func pythonRig(t *testing.T, config Config, watch watcher) (r *rig, works bool) {
	t.Helper()
	config.PythonEnabled = true
	r = setup(t, config, watch)
	return r, setup(t, Config{PythonEnabled: true}, watcher{}).sandbox.ProbePython(t.Context()) == nil
}

// python runs a program and checks how it ended; on a host without Python, only that it
// did not complete.
func (r *rig) python(works bool, code string, want ...Exit) Outcome {
	r.t.Helper()
	o, _ := r.run(r.t.Context(), PythonName, code)
	switch {
	case works && !slices.Contains(want, o.Exit):
		r.t.Errorf("%.300s\ngot %s: %.500s, stdout %.300q, stderr %.1000q, want %v", code, o.Exit, o.Error, o.Stdout, o.Stderr, want)
	case !works && o.Exit == ExitCompleted:
		r.t.Errorf("%.300s\ncompleted on a host where the probe fails", code)
	}
	return o
}

func TestProbePython(t *testing.T) {
	t.Parallel()
	sandbox := setup(t, Config{PythonEnabled: true}, watcher{}).sandbox
	err := sandbox.ProbePython(t.Context())
	var names []string
	for _, tool := range sandbox.Tools(t.Context()) {
		names = append(names, tool.Definition().Name)
	}
	testkit.Equal(t, names, []string{JavaScriptName, PythonName}[:1+btoi(err == nil)], "the tools are offered (probe: %v)", err)
	if tools := setup(t, Config{}, watcher{}).sandbox.Tools(t.Context()); len(tools) != 1 {
		t.Errorf("%d tools are offered with Python switched off", len(tools))
	}
	// The same question, without our code. A missing program is this machine's own fault;
	// what its kernel or a container forbids is not, and is logged.
	bwrap, missing := exec.LookPath("bwrap")
	if missing != nil {
		t.Fatalf("bubblewrap is not installed (run .ci/install); the probe says: %v", err)
	}
	if _, noPython := os.Stat(defaultPython); noPython != nil {
		t.Fatalf("Python 3 is not installed (run .ci/install); the probe says: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), bwrap, "--unshare-all", "--unshare-user", "--disable-userns",
		"--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "/bin/true")
	ownGroup(cmd)
	dropRoot(cmd)
	output, refused := cmd.CombinedOutput()
	switch {
	case refused != nil:
		wantWords(t, err, "user namespaces")
		t.Logf("this host refuses bubblewrap (%q), so no test has run Python: %v", output, err)
	case err != nil:
		t.Errorf("bubblewrap works on this host, but the probe says: %v", err)
	default:
		t.Log("Python runs on this host")
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func wantWords(t *testing.T, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want %q", err, words)
	}
}

func TestProbePythonSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "bwrap")
	wantWords(t, setup(t, Config{bwrap: missing}, watcher{}).sandbox.ProbePython(t.Context()), "is not installed")
	there := "/bin/true" // stands in for bubblewrap, which is never run
	wantWords(t, setup(t, Config{bwrap: there, python: "/usr/bin/python-missing"}, watcher{}).sandbox.ProbePython(t.Context()), "no Python 3")
	wantWords(t, setup(t, Config{bwrap: there, python: "/usr/bin"}, watcher{}).sandbox.ProbePython(t.Context()), "no Python 3")
	for words, stderr := range map[string]string{
		"user namespaces": "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces.\n",
		"too old":         "bwrap: Unknown option --disable-userns\n",
		"did not work":    "Traceback (most recent call last):\n",
	} {
		if output := explainBubblewrap(Outcome{Exit: ExitCrashed, Stderr: stderr}); !strings.Contains(output, words) {
			t.Errorf("%q is explained as %q", stderr, output)
		}
	}
}

func TestPythonValues(t *testing.T) {
	t.Parallel()
	r, works := pythonRig(t, Config{}, watcher{})
	for _, c := range []struct{ code, value, stdout, stderr string }{
		{code: "1 + 1", value: `2`},
		{code: "x = 5", value: `null`},
		{code: "import math\nprint('pi')\nround(math.pi, 4)", value: `3.1416`, stdout: "pi\n"},
		{code: "{'a': [1, None, True], 'é': '<&>'}", value: `{"a":[1,null,true],"é":"<&>"}`},
		{code: "{1, }", value: `"{1}"`},
		{code: "float('nan')", value: `"nan"`},
		{code: "{(1, 2): 3}", value: `"{(1, 2): 3}"`},
		{code: "import sys\nprint('e', file=sys.stderr)\n'\\ud800'", value: `"?"`, stderr: "e\n"},
		{code: "import asyncio\nawait asyncio.sleep(0)\nasync def f(): return 7\nawait f()", value: `7`},
		{code: "import sys\nprint('bye')\nsys.exit()", value: `null`, stdout: "bye\n"},
		{code: "import os\nos.write(1, b'\\xff\\n')\nos._exit(0)", value: `null`, stdout: "\uFFFD\n"},
		{code: "a = []\na.append(a)\na", value: `"[[...]]"`},
		{code: "open('/tmp/f', 'w').write('abc'); open('/tmp/f').read()", value: `"abc"`},
	} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			o := r.python(works, c.code, ExitCompleted)
			if works && (string(o.Value) != c.value || o.Stdout != c.stdout || o.Stderr != c.stderr) {
				t.Errorf("got %s (%s), value %s, stdout %q, stderr %q", o.Exit, o.Error, o.Value, o.Stdout, o.Stderr)
			}
		})
	}
}

func TestPythonFailures(t *testing.T) {
	t.Parallel()
	r, works := pythonRig(t, Config{pythonMemoryBytes: 128 << 20}, watcher{})
	for name, c := range map[string]struct {
		code, want string
		exits      []Exit
	}{
		"exception":      {"print('before')\n1 / 0", "ZeroDivisionError: division by zero", []Exit{ExitException}},
		"syntax":         {"x = = 1", "SyntaxError", []Exit{ExitException}},
		"NUL":            {"x\x00", "", []Exit{ExitException}},
		"exit code":      {"import sys\nsys.exit(3)", "SystemExit: 3", []Exit{ExitException}},
		"hard exit":      {"import os\nos._exit(3)", "exit status 3", []Exit{ExitCrashed}},
		"input":          {"input()", "EOFError", []Exit{ExitException}},
		"recursion":      {"def f(): f()\nf()", "RecursionError", []Exit{ExitStackOverflow}},
		"C recursion":    {"import sys\nsys.setrecursionlimit(10**9)\nclass A:\n  def __repr__(s): return repr(s)\nrepr(A())", "", []Exit{ExitCrashed, ExitStackOverflow, ExitOutOfMemory}},
		"lists":          {"a = []\nwhile True: a.append([0] * 10000)", "MemoryError", []Exit{ExitOutOfMemory}},
		"bytes":          {"bytearray(10**12)", "MemoryError", []Exit{ExitOutOfMemory}},
		"segfault":       {"import ctypes\nctypes.string_at(0)", "", []Exit{ExitCrashed}},
		"killed":         {"import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "", []Exit{ExitCrashed}},
		"output":         {"while True: print('x' * 100)", "printed more", []Exit{ExitOutputLimit}},
		"value":          {"'x' * 10**6", "the value is", []Exit{ExitOutputLimit}},
		"exception text": {"raise ValueError('x' * 10**6)", "", []Exit{ExitException, ExitOutputLimit}},
		"big file":       {"f = open('/tmp/f', 'wb')\nwhile True: f.write(b'0' * 10**6)", "", []Exit{ExitException, ExitCrashed}},
		"full disk":      {"import itertools\nfor i in itertools.count():\n  open(f'/tmp/{i}', 'wb').write(b'0' * 10**6)", "OSError", []Exit{ExitException}},
		"full shm":       {"import itertools\nfor i in itertools.count():\n  open(f'/dev/shm/{i}', 'wb').write(b'0' * 10**6)", "No space left", []Exit{ExitException}},
		"processes":      {"import os\nwhile True:\n  if os.fork() == 0:\n    while True: pass", "Operation not permitted", []Exit{ExitException}},
		"a program":      {"import subprocess\nsubprocess.run(['/usr/bin/sleep', '1000'])", "Operation not permitted", []Exit{ExitException}},
		"threads":        {"import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()", "can't start new thread", []Exit{ExitException}},
		"memory files":   {"import os\nfor i in range(200): os.write(os.memfd_create('x'), b'0' * 10**7)", "Operation not permitted", []Exit{ExitException}},
		"forged end":     {"import os\nos.write(3, b'{\"exit\":\"root\",\"value\":[1')\nos._exit(0)", "", []Exit{ExitCompleted}},
		"no alarm":       {"import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nimport sys\nsys.exit(1)", "", []Exit{ExitException}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := r.python(works, c.code, c.exits...)
			if works && !strings.Contains(o.Error, c.want) {
				t.Errorf("error %.300q, want %q", o.Error, c.want)
			}
			if works && name == "exception" && (o.Stdout != "before\n" || !strings.Contains(o.Stderr, "1 / 0") || strings.Contains(o.Stderr, "<string>")) {
				t.Errorf("stdout %q, stderr %q", o.Stdout, o.Stderr)
			}
		})
	}
}

func TestEndlessPython(t *testing.T) {
	t.Parallel()
	r, works := pythonRig(t, Config{Timeout: time.Second}, watcher{})
	for name, code := range map[string]string{
		"loop":        "while True: pass",
		"sleep":       "import time\ntime.sleep(1000)",
		"regex":       "import re\nre.match('(a+)+$', 'a' * 50 + 'b')",
		"deaf":        "import signal\nfor s in range(1, 32):\n  try: signal.signal(s, signal.SIG_IGN)\n  except (OSError, ValueError): pass\nwhile True: pass",
		"alarm off":   "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0)\nsignal.alarm(0)\nwhile True: pass",
		"no report":   "import os\nos.closerange(3, 256)\nwhile True: pass",
		"forged end":  "import os\nos.write(3, b'{}')\nos.close(3)\nwhile True: pass",
		"new limits":  "import resource\nfor r in (resource.RLIMIT_CPU, resource.RLIMIT_AS):\n  try: resource.setrlimit(r, (-1, -1))\n  except (OSError, ValueError): pass\nwhile True: pass",
		"catches all": "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
		"threads":     "import threading\ndef f():\n  while True: pass\nfor i in range(8): threading.Thread(target=f).start()\nf()",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := r.forLonger(func(r *rig) Outcome { return r.python(works, "print('before')\n"+code, ExitTimeout) })
			if works && o.Stdout != "before\n" {
				t.Errorf("stdout %q", o.Stdout)
			}
		})
	}
}

func TestPythonHasNoHost(t *testing.T) {
	t.Parallel()
	r, works := pythonRig(t, Config{}, watcher{})
	for _, c := range []struct{ code, value string }{
		{"import socket\ntry:\n  socket.create_connection(('1.1.1.1', 53), 1)\n  e = None\nexcept OSError as x: e = x.errno\ne", `101`}, // ENETUNREACH
		{"import os\nsorted(set(os.listdir('/')) - {'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'})", `["dev","etc","home","proc","tmp","usr"]`},
		{"import os\n[k for k in os.environ if k not in ('PATH', 'HOME', 'LANG', 'PWD', 'OPENBLAS_NUM_THREADS', 'MPLCONFIGDIR', 'LC_CTYPE')]", `[]`},
		{"import os\n[os.getuid(), os.getgid(), os.getcwd(), os.uname().nodename]", `[65534,65534,"/home","sandbox"]`},
		{"import os\nmax(int(p) for p in os.listdir('/proc') if p.isdigit()) < 50", `true`},
		{"def tried(p):\n  try: open(p, 'w')\n  except OSError as e: return e.errno\n[tried('/usr/x'), tried('/x'), tried('/etc/x'), tried('/dev/x')]", `[30,30,30,30]`}, // EROFS
		{"import multiprocessing\nwith multiprocessing.Lock(): print(file=open('/dev/null', 'w'))\nopen('/dev/urandom', 'rb').read(1) != b''", `true`},
		{"import os\n[f for f in os.listdir('/home') + os.listdir('/tmp')]", `[]`},
		{"print(open('/proc/self/status').read().split('CapEff:')[1].split()[0], open('/proc/self/status').read().split('NoNewPrivs:')[1].split()[0])", `null`},
		{"from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(8) as pool: r = sum(pool.map(abs, range(-100, 0)))\nr", `5050`},
		{"import ctypes\nf = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: n + 1)\nc = ctypes.CDLL(None)\n[f(6), c.shmget(0, 4096, 0o1600), c.msgget(0, 0o1600), c.semget(0, 1, 0o1600), c.vfork()]", `[7,-1,-1,-1,-1]`},
		{"import os\ntry: r = os.unshare(os.CLONE_NEWUSER)\nexcept AttributeError:\n  import ctypes; r = ctypes.CDLL(None).unshare(0x10000000)\nexcept OSError: r = -1\nr", `-1`},
	} {
		o := r.python(works, c.code, ExitCompleted)
		if works && string(o.Value) != c.value {
			t.Errorf("%s\ngot %s, stderr %s, want %s", c.code, o.Value, o.Stderr, c.value)
		}
		if works && strings.HasPrefix(c.code, "print(open") && o.Stdout != "0000000000000000 1\n" {
			t.Errorf("capabilities and no_new_privs are %q", o.Stdout)
		}
	}
}

// TestPythonSystemCalls tries system calls that the filter denies.
func TestPythonSystemCalls(t *testing.T) {
	t.Parallel()
	r, works := pythonRig(t, Config{}, watcher{})
	forbidden := map[string]int{
		"ptrace": unix.SYS_PTRACE, "bpf": unix.SYS_BPF, "io_uring_setup": unix.SYS_IO_URING_SETUP, "userfaultfd": unix.SYS_USERFAULTFD,
		"perf_event_open": unix.SYS_PERF_EVENT_OPEN, "keyctl": unix.SYS_KEYCTL, "add_key": unix.SYS_ADD_KEY, "request_key": unix.SYS_REQUEST_KEY,
		"unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS, "mount": unix.SYS_MOUNT, "move_mount": unix.SYS_MOVE_MOUNT, "umount2": unix.SYS_UMOUNT2,
		"pivot_root": unix.SYS_PIVOT_ROOT, "chroot": unix.SYS_CHROOT, "process_vm_readv": unix.SYS_PROCESS_VM_READV, "pidfd_open": unix.SYS_PIDFD_OPEN,
		"kexec_load": unix.SYS_KEXEC_LOAD, "init_module": unix.SYS_INIT_MODULE, "personality": unix.SYS_PERSONALITY, "mknodat": unix.SYS_MKNODAT,
		"memfd_create": unix.SYS_MEMFD_CREATE, "memfd_secret": unix.SYS_MEMFD_SECRET, "shmget": unix.SYS_SHMGET, "clone3": unix.SYS_CLONE3,
		"open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "setuid": unix.SYS_SETUID, "seccomp": unix.SYS_SECCOMP, "no such call": 9999,
	}
	encoded, err := json.Marshal(forbidden)
	must(t, err)
	o := r.python(works, "import ctypes, errno\nc = ctypes.CDLL(None, use_errno=True)\nr = []\nfor name, n in "+string(encoded)+`.items():
  if c.syscall(n, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS): r.append([name, ctypes.get_errno()])
r`, ExitCompleted)
	if works && string(o.Value) != "[]" {
		t.Errorf("these calls are not denied: %s", o.Value)
	}
}

func TestCancelledPython(t *testing.T) {
	t.Parallel()
	printed := make(chan struct{})
	r, works := pythonRig(t, Config{Timeout: time.Minute}, watcher{printed: func(string) { close(printed) }})
	ctx, cancel := context.WithCancel(t.Context())
	context.AfterFunc(t.Context(), cancel)
	go func() {
		select {
		case <-printed:
			cancel()
		case <-ctx.Done():
		}
	}()
	o := r.sandbox.runPython(ctx, "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\nprint('started')\nwhile True: pass")
	if works && (o.Exit != ExitCancelled || o.Stdout != "started\n") {
		t.Errorf("got %s: %s, stdout %q", o.Exit, o.Error, o.Stdout)
	}
	if !works && o.Exit == ExitCompleted {
		t.Error("completed on a host where the probe fails")
	}
	cancel()
}

func TestPythonEndings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Exit{
		``:                                  "",
		`{`:                                 "",
		`{"exit":"root"}`:                   "",
		`{"exit":"crashed"}`:                "",
		`{"exit":"completed","value":1}`:    ExitCompleted,
		`{"exit":"exception"}`:              ExitException,
		`{"exit":"completed","value":1} {}`: "",
		strings.Repeat(" ", 1<<20) + `{"exit":"completed"}`: "",
	} {
		end := readEnding(strings.NewReader(text), 1000)
		switch {
		case end == nil && want != "", end != nil && end.Exit != want:
			t.Errorf("%.50q: got %+v, want %q", text, end, want)
		case end != nil && end.Exit != ExitCompleted && end.Error == "":
			t.Errorf("%.50q: no error", text)
		}
	}
	long := `{"exit":"completed","value":"` + strings.Repeat("x", 5000) + `","error":"` + strings.Repeat("y", 2000) + `","durationMs":-5}`
	if end := readEnding(strings.NewReader(long), 1000); end == nil || len(end.Value) > 2200 || len(end.Error) > 1000 || end.DurationMs != 0 {
		t.Errorf("got %+v", end)
	}
}
