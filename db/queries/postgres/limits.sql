-- StoredBytes sums the sizes, in bytes, of an owner's messages and images as they are
-- stored.
-- name: StoredBytes :one
SELECT CAST(
    (SELECT coalesce(sum(pg_column_size(m.parts)), 0) FROM messages AS m JOIN threads AS t ON t.id = m.thread_id WHERE t.owner = @owner)
    + (SELECT coalesce(sum(i.size), 0) FROM images AS i JOIN threads AS t ON t.id = i.thread_id WHERE t.owner = @owner) AS bigint
);

-- LockOwner keeps other transactions from counting what of the owner until the end of this one.
-- name: LockOwner :exec
SELECT pg_advisory_xact_lock(hashtextextended(CAST(@what AS text) || ' of ' || CAST(@owner AS text), 0));
