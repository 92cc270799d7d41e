-- LockOwner does nothing: SQLite runs one writing transaction at a time.
-- name: LockOwner :exec
SELECT CAST(@what AS text) || CAST(@owner AS text);
