-- LockOwner keeps other transactions from counting what of the owner until the end of this one.
-- name: LockOwner :exec
SELECT pg_advisory_xact_lock(hashtextextended(CAST(@what AS text) || ' of ' || CAST(@owner AS text), 0));
