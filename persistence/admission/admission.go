// Package admission keeps what decides who may come in: page sessions and client secrets, the secret that signs them,
// rates that all processes share, and the tools of MCP servers as they were approved.
package admission

import "voicebridge/persistence/internal/database"

// Store keeps it in the database. It is safe for concurrent use.
type Store struct{ db database.DB }

// New returns the Store of a database.
func New(db database.DB) *Store { return &Store{db} }
