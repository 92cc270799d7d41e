-- HoldInstance makes LockInstance wait for the end of the transaction, so that nobody
-- ends the instance before; heartbeats go on. It returns no row if the instance was ended.
-- name: HoldInstance :one
SELECT id FROM instances WHERE id = @id AND ended_at IS NULL FOR KEY SHARE;

-- LockInstance waits until the instance has no open transaction, and keeps it from
-- beginning one.
-- name: LockInstance :one
SELECT beats FROM instances WHERE id = @id FOR UPDATE;
