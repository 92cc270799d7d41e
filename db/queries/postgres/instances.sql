-- HoldInstance keeps the instance from being ended by others until the end of the
-- transaction; its beats go on. No row says that it was ended.
-- name: HoldInstance :one
SELECT id FROM instances WHERE id = @id AND ended_at IS NULL FOR KEY SHARE;

-- LockInstance waits until the instance has no transaction open, and keeps it from
-- beginning one.
-- name: LockInstance :one
SELECT beats FROM instances WHERE id = @id FOR UPDATE;
