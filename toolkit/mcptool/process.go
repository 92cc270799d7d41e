package mcptool

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// terminate is how long a child may take to end after each of: closing its stdin, SIGTERM,
// SIGKILL.
const terminate = 2 * time.Second

// process carries a session over the stdin and stdout of a child process.
type process struct {
	config  Server
	log     *slog.Logger
	secrets *strings.Replacer
	read    reader

	cmd     *exec.Cmd
	release func() // ends the guard
	stdin   *os.File
	stdout  *os.File
	once    sync.Once
	exited  chan struct{} // closed when the child has ended
	cleared chan struct{} // closed when its guard has ended, too
	err     error         // how it ended; read it only after exited is closed
}

// inherited are the only variables of this process that a child gets: others contain secrets.
var inherited = []string{"PATH", "HOME", "LANG", "TMPDIR"}

// markVariable marks a child and what it starts.
const markVariable = "VOICEBRIDGE_PROCESS"

func environment(own map[string]string) []string {
	var env []string
	for _, key := range inherited {
		if value, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+value)
		}
	}
	for key, value := range own {
		env = append(env, key+"="+value) // of duplicates the last counts
	}
	return env
}

// commandIn returns the path of a command in the first folder of a PATH that has it, and else the command, to
// be looked for in our PATH. A server's own PATH often says where its npx is.
func commandIn(path, command string) string {
	if filepath.Base(command) != command {
		return command
	}
	for _, folder := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(folder, command)); err == nil && filepath.IsAbs(folder) {
			return found
		}
	}
	return command
}

func (p *process) connect() (mcp.Transport, error) {
	// The child outlives the ctx of the attempt; stop ends it.
	p.cmd = exec.CommandContext(context.Background(), commandIn(p.config.Env["PATH"], p.config.Command),
		p.config.Args...)
	p.cmd.Dir = p.config.Cwd
	mark := markVariable + "=" + rand.Text()
	p.cmd.Env = append(environment(p.config.Env), mark)
	p.cmd.Stderr = &lineLog{secrets: p.secrets, log: func(attrs ...any) { p.log.Info("MCP server stderr", attrs...) }}
	p.cmd.WaitDelay = time.Second // a grandchild may hold stderr open
	ownGroup(p.cmd)
	// Pipes of our own: with cmd.StdoutPipe, Wait would discard what the child wrote last.
	childIn, stdin, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.config.Command, err)
	}
	stdout, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", p.config.Command, err), childIn.Close(), stdin.Close())
	}
	p.cmd.Stdin, p.cmd.Stdout = childIn, childOut
	err = p.cmd.Start()
	_ = errors.Join(childIn.Close(), childOut.Close()) // the child has its own
	if err != nil {
		_ = errors.Join(stdin.Close(), stdout.Close())
		return nil, fmt.Errorf("start: %w", err)
	}
	p.stdin, p.stdout = stdin, stdout
	p.exited, p.cleared = make(chan struct{}), make(chan struct{})
	p.release = guard(p.cmd, mark, environment(nil))
	go p.wait()
	other := &lineLog{
		secrets: p.secrets, log: func(attrs ...any) { p.log.Info("MCP server stdout, not a message", attrs...) },
	}
	// its reader has a limit
	return &mcp.IOTransport{Reader: stdoutOf(stdout, p.read, other), Writer: stdin, MaxLineLength: -1}, nil
}

func (p *process) wait() {
	p.err = p.cmd.Wait()
	close(p.exited)
	// Processes that it started end with it. Otherwise a grandchild that holds stdout would keep
	// the session open.
	killGroup(p.cmd)
	p.release()
	close(p.cleared)
}

func (p *process) stop() {
	p.once.Do(func() {
		_ = p.stdin.Close()
		for _, end := range []func(*exec.Cmd){nothing, terminateGroup, killGroup} {
			end(p.cmd)
			select {
			case <-p.exited:
				<-p.cleared
			case <-time.After(terminate):
				continue
			}
			break
		}
		_ = p.stdout.Close()
	})
}

func nothing(*exec.Cmd) {}

// explain adds how the child ended, if it has: "EOF" alone helps nobody. The end of the child is known
// a moment after that of its stdout.
func (p *process) explain(err error) error {
	select {
	case <-p.exited:
	case <-time.After(moment):
		return err
	}
	if p.err != nil {
		return fmt.Errorf("%w (the process ended: %w)", err, p.err)
	}
	return fmt.Errorf("%w (the process ended)", err)
}
