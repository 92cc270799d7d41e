package persistencetest

import (
	"database/sql"
	neturl "net/url"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"; persistence brings "sqlite"
)

// rawDB opens the database behind the store's back, as a person would.
func rawDB(t testing.TB, url string) *sql.DB {
	t.Helper()
	driver, dsn := "pgx", url
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, dsn = "sqlite", path+"?_pragma=busy_timeout(60000)"
	} else if u, err := neturl.Parse(url); err == nil { // behind a pooler, too
		q := u.Query()
		q.Set("default_query_exec_mode", "exec")
		u.RawQuery = q.Encode()
		dsn = u.String()
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatalf("open database: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() }) // nothing is pending
	return db
}

// table returns the columns and the rows of a query as text, NULL as "NULL".
func table(t testing.TB, url, query string) (columns []string, rows [][]string) {
	t.Helper()
	db := rawDB(t, url)
	defer db.Close() // polling would pile up connections otherwise
	result, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer result.Close()
	if columns, err = result.Columns(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	for result.Next() {
		cells := make([]any, len(columns))
		for i := range cells {
			cells[i] = new(sql.NullString)
		}
		if err := result.Scan(cells...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		row := make([]string, len(columns))
		for i, c := range cells {
			if v := c.(*sql.NullString); v.Valid {
				row[i] = v.String
			} else {
				row[i] = "NULL"
			}
		}
		rows = append(rows, row)
	}
	if err := result.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return columns, rows
}
