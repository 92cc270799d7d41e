package persistencetest

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Path is one process's connection to the database, which can be frozen: what is sent
// meanwhile arrives later.
type Path struct {
	URL  string
	hold sync.RWMutex // held for writing while the path is frozen
}

// NewPath makes a path to a PostgreSQL database, through a socket of its own.
func NewPath(t testing.TB, database string) *Path {
	t.Helper()
	cfg, err := pgconn.ParseConfig(database)
	must(t, err)
	network, address := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	dir := t.TempDir()
	ln, err := net.Listen("unix", filepath.Join(dir, fmt.Sprintf(".s.PGSQL.%d", cfg.Port)))
	must(t, err)
	u, err := url.Parse(database)
	must(t, err)
	q := u.Query()
	q.Set("host", dir)
	q.Set("port", fmt.Sprint(cfg.Port))
	u.Host, u.RawQuery = "", q.Encode()
	p := &Path{URL: u.String()}
	var running sync.WaitGroup
	t.Cleanup(func() { _ = ln.Close(); running.Wait() })
	running.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				server, err := net.Dial(network, address)
				if err != nil {
					_ = client.Close()
					return
				}
				var both sync.WaitGroup
				both.Go(func() { p.carry(server, client) })
				both.Go(func() { p.carry(client, server) })
				both.Wait()
			})
		}
	})
	return p
}

// carry copies data from one side until either ends.
func (p *Path) carry(to, from net.Conn) {
	defer func() { _ = to.Close(); _ = from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.hold.RLock()
		_, errTo := to.Write(buffer[:n])
		p.hold.RUnlock()
		if err != nil || errTo != nil {
			return
		}
	}
}

// Freeze delays everything until thaw is called.
func (p *Path) Freeze() (thaw func()) {
	p.hold.Lock()
	return sync.OnceFunc(p.hold.Unlock)
}
