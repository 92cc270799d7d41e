-- name: SaveCommand :exec
INSERT INTO commands (id, instance, owner, thread_id, kind, body, created_at, expires_at, reply, error)
VALUES (@id, @instance, @owner, @thread_id, @kind, @body, @created_at, @expires_at, '', '');

-- name: ListCommands :many
SELECT * FROM commands WHERE instance = @instance AND taken_at IS NULL AND expires_at > @now ORDER BY id;

-- TakeCommand changes nothing if the command was taken before.
-- name: TakeCommand :execrows
UPDATE commands SET taken_at = @taken_at WHERE id = @id AND taken_at IS NULL;

-- name: AnswerCommand :exec
UPDATE commands SET answered_at = @answered_at, reply = @reply, error = @error WHERE id = @id;

-- name: GetCommand :one
SELECT * FROM commands WHERE id = @id;

-- DeleteCommand deletes a command, and those that expired before a time.
-- name: DeleteCommand :exec
DELETE FROM commands WHERE id = @id OR expires_at < @before;

-- name: ListenTo :exec
UPDATE instances SET shards = @shards, reads_notes = @reads_notes WHERE id = @id;

-- name: SaveImage :one
INSERT INTO images (id, thread_id, media_type, width, height, size, data, created_at)
VALUES (
    @id, (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner),
    @media_type, @width, @height, @size, @data, @created_at
)
RETURNING id;

-- name: GetImage :one
SELECT i.* FROM images AS i
JOIN threads AS t ON t.id = i.thread_id
WHERE i.id = @id AND i.thread_id = @thread_id AND t.owner = @owner;

-- StoredImages sums the sizes, in bytes, of all images of an owner.
-- name: StoredImages :one
SELECT CAST(coalesce(sum(i.size), 0) AS bigint) FROM images AS i
JOIN threads AS t ON t.id = i.thread_id
WHERE t.owner = @owner;
