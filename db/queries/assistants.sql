-- name: GetAssistant :one
SELECT * FROM assistants WHERE owner = @owner AND id = @id;

-- GetSharedAssistant finds the one that has been shared for the longest time.
-- name: GetSharedAssistant :one
SELECT * FROM assistants WHERE id = @id AND shared ORDER BY coalesce(shared_at, created_at), owner LIMIT 1;

-- name: CountAssistants :one
SELECT count(*) FROM assistants WHERE owner = @owner;

-- name: InsertAssistant :execrows
INSERT INTO assistants (owner, id, shared, data, secret, created_at, updated_at)
VALUES (@owner, @id, @shared, @data, @secret, @created_at, @created_at)
ON CONFLICT (owner, id) DO NOTHING;

-- ChangeAssistant changes nothing if it has been changed since it was read. While it is private, shared_at moves on.
-- name: ChangeAssistant :execrows
UPDATE assistants SET shared = @shared, data = @data, updated_at = @updated_at,
    shared_at = CASE WHEN shared THEN shared_at ELSE @updated_at END
WHERE owner = @owner AND id = @id AND updated_at = @read_at;

-- name: DeleteAssistant :execrows
DELETE FROM assistants WHERE owner = @owner AND id = @id;

-- name: SetThreadAssistant :one
UPDATE threads SET assistant_id = @assistant_id, assistant_owner = @assistant_owner, variables = coalesce(sqlc.narg('variables'), variables) WHERE id = @id AND owner = @owner
RETURNING *;

-- ListRetaining lists the assistants that say how long their threads are kept.
-- name: ListRetaining :many
SELECT * FROM assistants WHERE CAST(data AS text) LIKE '%"retention_days"%';
