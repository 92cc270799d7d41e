-- StoredBytes sums the sizes, in bytes, of an owner's messages and images as they are
-- stored.
-- name: StoredBytes :one
SELECT CAST(
    (SELECT coalesce(sum(length(CAST(m.parts AS blob))), 0) FROM messages AS m JOIN threads AS t ON t.id = m.thread_id WHERE t.owner = @owner)
    + (SELECT coalesce(sum(i.size), 0) FROM images AS i JOIN threads AS t ON t.id = i.thread_id WHERE t.owner = @owner) AS bigint
);

-- LockOwner does nothing: SQLite runs one writing transaction at a time.
-- name: LockOwner :exec
SELECT CAST(@what AS text) || CAST(@owner AS text);
