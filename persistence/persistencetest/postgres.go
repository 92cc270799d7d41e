package persistencetest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"voicebridge/persistence"
)

// server is the PostgreSQL server of this test binary.
var server struct {
	once  sync.Once
	url   string // of a database to connect to for making others
	err   error
	local *localServer // nil when the server is given by TEST_DATABASE_URL
	made  string       // the name of the template

	making   sync.Mutex
	count    atomic.Int64
	template func() (string, error) // the database that others are copies of
}

// PostgresURL names a database of the test's own with tables and no rows, copied on a real
// PostgreSQL server: that of TEST_DATABASE_URL, else a throw-away cluster that is started
// once per test binary. Without a server the test fails.
func PostgresURL(t testing.TB) string {
	t.Helper()
	needServer(t)
	template, err := server.template()
	must(t, err)
	return newDatabase(t, " TEMPLATE "+template)
}

// EmptyPostgresURL is PostgresURL without tables.
func EmptyPostgresURL(t testing.TB) string {
	t.Helper()
	needServer(t)
	return newDatabase(t, "")
}

func needServer(t testing.TB) {
	t.Helper()
	server.once.Do(startServer)
	if server.err != nil {
		t.Fatalf("no PostgreSQL for the tests (`make test` installs it; TEST_DATABASE_URL names another): %v", server.err)
	}
}

// newDatabase makes a database that is dropped with the test, and returns its address.
func newDatabase(t testing.TB, how string) string {
	t.Helper()
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), server.count.Add(1))
	must(t, admin(t.Context(), "CREATE DATABASE "+name+how))
	t.Cleanup(func() {
		if err := admin(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("remove the database of the test: %v", err)
		}
	})
	address, err := databaseURL(name)
	must(t, err)
	return address
}

// databaseURL is the address of a database of the server.
func databaseURL(name string) (string, error) {
	u, err := url.Parse(server.url)
	if err != nil {
		return "", errors.New("read TEST_DATABASE_URL: it is not an address")
	}
	u.Path = "/" + name
	return u.String(), nil
}

// makeTemplate makes the database that others are copies of, and returns its name.
func makeTemplate() (string, error) {
	name := fmt.Sprintf("test_%d_template", os.Getpid())
	if err := admin(context.Background(), "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	address, err := databaseURL(name)
	if err != nil {
		return "", err
	}
	server.made = name
	return name, persistence.Migrate(context.Background(), address, persistence.Options{})
}

func startServer() {
	server.template = sync.OnceValues(makeTemplate)
	if server.url = os.Getenv("TEST_DATABASE_URL"); server.url != "" {
		return
	}
	if server.local, server.err = startLocal(); server.err == nil {
		server.url = server.local.url
	}
}

// admin runs one statement outside of any test's database. One at a time: each new
// database is a copy of the same template.
func admin(ctx context.Context, statement string) error {
	server.making.Lock()
	defer server.making.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, server.url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// stopCluster stops the cluster if one was started, or drops what was made on another
// server.
func stopCluster() error {
	if server.local != nil {
		return server.local.stop()
	}
	if server.made != "" {
		return admin(context.Background(), "DROP DATABASE "+server.made+" WITH (FORCE)")
	}
	return nil
}
