package persistencetest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// poolerPort only names the socket in the pooler's folder.
const poolerPort = 6432

// Pooler is PgBouncer in front of the test's PostgreSQL server, in transaction mode: each
// transaction of a client may use another connection.
type Pooler struct{ dir string }

// NewPooler starts PgBouncer, which ends with the test.
func NewPooler(t testing.TB) *Pooler {
	t.Helper()
	bin, err := findPooler()
	must(t, err)
	server, err := pgconn.ParseConfig(PostgresURL(t))
	must(t, err)
	dir, err := os.MkdirTemp("", "voicebridge-pooler-") //nolint:usetesting // a socket's path must be short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	attr, err := serverUser(dir)
	must(t, err)
	files := map[string]string{
		"users.txt": fmt.Sprintf("%q %q\n", server.User, server.Password),
		"pgbouncer.ini": strings.Join([]string{
			"[databases]", fmt.Sprintf("* = host=%s port=%d", server.Host, server.Port),
			"[pgbouncer]", "listen_addr =", fmt.Sprintf("listen_port = %d", poolerPort), "unix_socket_dir = " + dir,
			"auth_type = trust", "auth_file = " + filepath.Join(dir, "users.txt"),
			"pool_mode = transaction", "default_pool_size = 4", "max_client_conn = 2000", "logfile = " + filepath.Join(dir, "log"), "",
		}, "\n"),
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil { //nolint:gosec // another user reads it
			t.Fatal(err)
		}
	}
	var stderr strings.Builder
	cmd := exec.Command(bin, filepath.Join(dir, "pgbouncer.ini"))
	// The signal at the death of the parent follows a thread, which may end before the test.
	cmd.Dir, cmd.SysProcAttr, cmd.Stderr = dir, &syscall.SysProcAttr{Credential: attr.Credential}, &stderr
	must(t, cmd.Start())
	ended := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() { _ = cmd.Wait(); close(ended) })
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		waiting.Wait()
	})
	p := &Pooler{dir: dir}
	for until := time.Now().Add(patience); ; {
		conn, err := net.Dial("unix", filepath.Join(dir, fmt.Sprintf(".s.PGSQL.%d", poolerPort)))
		if err == nil {
			_ = conn.Close()
			return p
		}
		select {
		case <-ended:
			t.Fatalf("start PgBouncer: it ended: %s", stderr.String())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(until) {
			t.Fatalf("start PgBouncer: %v", err)
		}
	}
}

// findPooler finds the program: Debian keeps it in a folder for administrators.
func findPooler() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("the program pgbouncer is not found (`make test` installs it)")
}

// URL is PostgresURL through the pooler.
func (p *Pooler) URL(t testing.TB) string { return p.before(t, PostgresURL(t)) }

// EmptyURL is EmptyPostgresURL through the pooler.
func (p *Pooler) EmptyURL(t testing.TB) string { return p.before(t, EmptyPostgresURL(t)) }

func (p *Pooler) before(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	q := u.Query()
	q.Set("host", p.dir)
	q.Set("port", fmt.Sprint(poolerPort))
	u.Host, u.RawQuery = "", q.Encode()
	return u.String()
}
