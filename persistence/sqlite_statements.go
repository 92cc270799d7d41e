package persistence

import (
	"context"
	"database/sql"
	"sync"
)

// statements are the queries of a database, prepared once they have run twice: parsing took a third of a write's time.
// Each takes memory on every connection for as long as it is open, so what runs once, such as at the start, is not
// kept.
type statements struct {
	*sql.DB

	mu       sync.Mutex
	prepared map[string]*sql.Stmt // nil: it has run and is not prepared
	again    []string             // have run twice
}

func newStatements(db *sql.DB) *statements {
	return &statements{DB: db, prepared: map[string]*sql.Stmt{}}
}

// find returns a query prepared, or nil if it must be parsed.
func (s *statements) find(query string) *sql.Stmt {
	s.mu.Lock()
	defer s.mu.Unlock()
	stmt, ran := s.prepared[query]
	if ran && stmt == nil {
		s.again = append(s.again, query)
	} else if !ran {
		s.prepared[query] = nil
	}
	return stmt
}

// prepare prepares what has run twice. Of a writer it needs the only connection, so no transaction may call it. What
// cannot be prepared says why when it runs.
func (s *statements) prepare(ctx context.Context) {
	s.mu.Lock()
	again := s.again
	s.again = nil
	s.mu.Unlock()
	for _, query := range again {
		if stmt, err := s.PrepareContext(ctx, query); err == nil {
			s.keep(query, stmt)
		}
	}
}

// keep keeps a prepared query, unless another caller was sooner.
func (s *statements) keep(query string, stmt *sql.Stmt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prepared[query] == nil {
		s.prepared[query] = stmt
		return
	}
	_ = stmt.Close() // nothing has used it
}

func (s *statements) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s.prepare(ctx)
	if stmt := s.find(query); stmt != nil { //nolint:sqlclosecheck // kept for the next time
		return stmt.ExecContext(ctx, args...)
	}
	return s.DB.ExecContext(ctx, query, args...)
}

func (s *statements) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s.prepare(ctx)
	if stmt := s.find(query); stmt != nil { //nolint:sqlclosecheck // kept for the next time
		return stmt.QueryContext(ctx, args...)
	}
	return s.DB.QueryContext(ctx, query, args...)
}

func (s *statements) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s.prepare(ctx)
	if stmt := s.find(query); stmt != nil { //nolint:sqlclosecheck // kept for the next time
		return stmt.QueryRowContext(ctx, args...)
	}
	return s.DB.QueryRowContext(ctx, query, args...)
}

// inTx runs queries in a transaction.
type inTx struct {
	*sql.Tx

	known *statements
}

func (t inTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if stmt := t.known.find(query); stmt != nil {
		return t.StmtContext(ctx, stmt).ExecContext(ctx, args...) //nolint:sqlclosecheck // with the transaction
	}
	return t.Tx.ExecContext(ctx, query, args...)
}

func (t inTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if stmt := t.known.find(query); stmt != nil {
		return t.StmtContext(ctx, stmt).QueryContext(ctx, args...) //nolint:sqlclosecheck // with the transaction
	}
	return t.Tx.QueryContext(ctx, query, args...)
}

func (t inTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if stmt := t.known.find(query); stmt != nil {
		return t.StmtContext(ctx, stmt).QueryRowContext(ctx, args...) //nolint:sqlclosecheck // with the transaction
	}
	return t.Tx.QueryRowContext(ctx, query, args...)
}
