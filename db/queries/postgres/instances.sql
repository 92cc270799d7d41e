-- HoldInstance makes LockInstance wait for the end of the transaction, so that nobody
-- ends the instance before; heartbeats go on. It returns no row if the instance was ended.
-- It takes the row's lock, too, which shows what the instance has become while this waited.
-- name: HoldInstance :one
SELECT id FROM instances WHERE id = @id AND ended_at IS NULL
    AND pg_advisory_xact_lock_shared(hashtextextended('instance ' || CAST(@id AS text), 0)) IS NOT NULL
FOR KEY SHARE;

-- LockInstance waits until the instance has no open transaction, and keeps it from
-- beginning one. Those that begin meanwhile queue behind it, as they would not for the row.
-- name: LockInstance :one
SELECT beats FROM instances WHERE id = @id
    AND pg_advisory_xact_lock(hashtextextended('instance ' || CAST(@id AS text), 0)) IS NOT NULL
FOR UPDATE;
