-- LogEvent writes an event, with its number, in the transaction that causes it.
-- name: LogEvent :exec
INSERT INTO events (mark, owner, thread_id, type, data, at) VALUES (@mark, @owner, @thread_id, @type, @data, @at);

-- NumberEvents does nothing: SQLite runs one writing transaction at a time.
-- name: NumberEvents :execrows
DELETE FROM events WHERE false;
