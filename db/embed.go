// Package db holds the SQL of voicebridge: the migrations of both engines, which
// are part of the binary, and the queries that sqlc makes code from.
package db

import "embed"

// Migrations holds migrations/postgres and migrations/sqlite, in goose's form.
//
//go:embed migrations/postgres/*.sql migrations/sqlite/*.sql
var Migrations embed.FS
