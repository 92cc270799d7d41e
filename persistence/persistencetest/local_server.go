package persistencetest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// localServer is a PostgreSQL server with its own temporary data. It listens only on a socket
// in its folder.
type localServer struct {
	dir  string
	url  string
	exit chan error // gets the result of the server's process
	proc *os.Process
	down bool // halted and not yet relaunched
}

// syncs is "on" to measure with data on the disk: durability is not under test.
var syncs = cmp.Or(os.Getenv("TEST_POSTGRES_FSYNC"), "off")

// startLocal creates and starts a server. The server refuses to run as root, so root
// runs it as another user.
func startLocal() (*localServer, error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	parent := ""
	if syncs == "off" && hasRoom(sharedMemory) {
		parent = sharedMemory // copying a database takes a tenth of the time
		sweep(parent)
	}
	dir, err := os.MkdirTemp(parent, clusterName)
	if err != nil {
		return nil, err
	}
	c := &localServer{
		dir: dir, exit: make(chan error, 1),
		url: (&url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/postgres", RawQuery: url.Values{"host": {dir}}.Encode()}).String(),
	}
	if err := c.start(bin); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c, nil
}

const clusterName = "voicebridge-postgres-"

// sweep removes what tests that were killed have left in a folder in memory.
func sweep(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, clusterName+"*"))
	for _, dir := range left {
		_, stopped := os.Stat(filepath.Join(dir, "data", "postmaster.pid"))
		if info, err := os.Stat(dir); err == nil && stopped != nil && time.Since(info.ModTime()) > time.Hour {
			_ = os.RemoveAll(dir) // or the next one does
		}
	}
}

// findPostgres returns the folder of the newest server. Debian keeps it outside of PATH.
func findPostgres() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errors.New("the programs initdb and postgres are not found")
	}
	newest := slices.MaxFunc(found, func(a, b string) int {
		return len(a) - len(b) + strings.Compare(a, b) // 9 before 15 before 16
	})
	return filepath.Dir(newest), nil
}

func (c *localServer) start(bin string) error {
	attr, err := serverUser(c.dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--pgdata="+filepath.Join(c.dir, "data"), "--username=postgres",
		"--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
	initdb.Dir, initdb.SysProcAttr = c.dir, attr
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return c.launch(bin)
}

// launch starts the server on its data and returns when it accepts connections.
func (c *localServer) launch(bin string) error {
	attr, err := serverUser(c.dir)
	if err != nil {
		return err
	}
	// The odd time zone is tested. A worker of the server that visits the template keeps it from being
	// copied, for seconds on a busy machine.
	cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", filepath.Join(c.dir, "data"), "-k", c.dir, "-c", "listen_addresses=",
		"-c", "fsync="+syncs, "-c", "full_page_writes="+syncs, "-c", "max_connections=300", "-c", "shared_buffers=32MB", "-c", "autovacuum=off",
		"-c", "timezone=Asia/Kathmandu", "-c", "lc_messages=C")
	cmd.Dir, cmd.SysProcAttr = c.dir, attr
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	started := make(chan error, 1)
	go func() {
		// The server is signalled when the thread that started it ends, so that thread is
		// kept.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		c.proc = cmd.Process
		if err != nil {
			c.exit <- err
			started <- err
			return
		}
		started <- waitReady(stderr)
		_, _ = io.Copy(io.Discard, stderr)
		c.exit <- cmd.Wait()
	}()
	select {
	case err := <-started:
		c.down = c.proc == nil
		return err
	case <-time.After(patience):
		return errors.New("start postgres: it was not ready in time")
	}
}

// waitReady reads the server's log until it says that it is ready.
func waitReady(log io.Reader) error {
	var lines []string
	for scanner := bufio.NewScanner(log); scanner.Scan(); {
		if strings.Contains(scanner.Text(), "ready to accept connections") {
			return nil
		}
		lines = append(lines, scanner.Text())
	}
	return fmt.Errorf("start postgres: %s", strings.Join(lines, "\n"))
}

// stop shuts the server down and removes its data.
func (c *localServer) stop() error {
	return errors.Join(c.halt(os.Interrupt), os.RemoveAll(c.dir)) // a fast shutdown
}

// halt stops the server with a signal and waits until it has ended.
func (c *localServer) halt(how os.Signal) error {
	if c.down {
		return nil
	}
	c.down = true
	var errs []error
	if err := c.proc.Signal(how); err != nil {
		errs = append(errs, err)
	}
	select {
	case <-c.exit:
	case <-time.After(patience):
		errs = append(errs, errors.New("postgres did not stop in time"), c.proc.Kill(), <-c.exit)
	}
	return errors.Join(errs...)
}
