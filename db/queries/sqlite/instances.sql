-- HoldInstance gives no row when the instance was ended by others. A transaction of
-- SQLite is alone anyway.
-- name: HoldInstance :one
SELECT id FROM instances WHERE id = @id AND ended_at IS NULL;

-- name: LockInstance :one
SELECT beats FROM instances WHERE id = @id;
