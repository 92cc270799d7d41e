package code

import (
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"voicebridge/toolkit"
)

const (
	// maxGoStack limits a goroutine's stack in the child. At the allowed call depth it takes about
	// 75 MB.
	maxGoStack     = 256 << 20
	exitBadRequest = 3
	exitOrphan     = 4
	exitUnconfined = 5
)

// First arguments of a child. They look like flags, so that a program that fails to check IsChild
// rejects them; otherwise a test binary would run all its tests, and start children of its own.
const (
	javaScriptChild = "--internal-javascript-child"
	pythonChild     = "--internal-python-child"
)

// reporter writes the child's frames. The watchdog may end the child while the program prints.
type reporter struct {
	mu       sync.Mutex
	encoder  *json.Encoder
	began    time.Time
	max      int
	confined bool
	ended    bool
}

func newReporter(stdout io.Writer, maxOutput int) *reporter {
	encoder := json.NewEncoder(stdout)
	encoder.SetEscapeHTML(false) // nor in values, which are already JSON
	return &reporter{encoder: encoder, began: time.Now(), max: maxOutput}
}

func (r *reporter) print(stream, text string) {
	// The parent stops the child at its limit; one character more is enough to tell.
	text = toolkit.Head(text, r.max+utf8.UTFMax)
	f := frame{Stdout: text}
	if stream == "stderr" {
		f = frame{Stderr: text}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.write(f)
	}
}

func (r *reporter) end(e ending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	e.DurationMs = time.Since(r.began).Milliseconds()
	e.Confined = r.confined
	r.write(frame{End: &e})
}

func (r *reporter) write(f frame) {
	if r.encoder.Encode(f) != nil {
		os.Exit(exitOrphan) // nobody is reading
	}
}

// request is what the child reads: one JSON document, after which its standard input stays open.
// When that closes, the parent is gone, and the child ends.
type request struct {
	Code        string        `json:"code"`
	Timeout     time.Duration `json:"timeout"` // nanoseconds
	MemoryBytes int64         `json:"memoryBytes"`
	MaxOutput   int           `json:"maxOutput"`
	Filter      bool          `json:"filter"` // run the program only under the seccomp filter
}

// frame is what the child writes, any number of them: the program's output as it is printed, so
// that it is not lost with the child, and finally how it ended.
type frame struct {
	Stdout string  `json:"stdout,omitempty"`
	Stderr string  `json:"stderr,omitempty"`
	End    *ending `json:"end,omitempty"`
}

type ending struct {
	Exit       Exit            `json:"exit"`
	Value      json.RawMessage `json:"value,omitempty"`
	Error      string          `json:"error,omitempty"`
	DurationMs int64           `json:"durationMs"`
	// Confined means that the seccomp filter was active.
	Confined bool `json:"confined"`
}
