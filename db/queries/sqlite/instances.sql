-- HoldInstance returns no row if the instance was ended. It need not lock: SQLite runs
-- one writing transaction at a time.
-- name: HoldInstance :one
SELECT id FROM instances WHERE id = @id AND ended_at IS NULL;

-- name: LockInstance :one
SELECT beats FROM instances WHERE id = @id;
