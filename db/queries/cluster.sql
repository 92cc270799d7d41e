-- name: SaveCommand :exec
INSERT INTO commands (id, instance, owner, thread_id, kind, body, created_at, expires_at, reply, error)
VALUES (@id, @instance, @owner, @thread_id, @kind, @body, @created_at, @expires_at, '', '');

-- name: ListCommands :many
SELECT * FROM commands WHERE instance = @instance AND taken_at IS NULL AND expires_at > @now ORDER BY id;

-- TakeCommand changes nothing if the command was taken before.
-- name: TakeCommand :execrows
UPDATE commands SET taken_at = @taken_at WHERE id = @id AND taken_at IS NULL;

-- name: AnswerCommand :exec
UPDATE commands SET answered_at = @answered_at, reply = @reply, error = @error, code = @code WHERE id = @id;

-- name: GetCommand :one
SELECT * FROM commands WHERE id = @id;

-- DeleteCommand deletes a command, and those that expired before a time.
-- name: DeleteCommand :exec
DELETE FROM commands WHERE id = @id OR expires_at < @before;

-- EventNumbers returns the numbers of the oldest and the newest event of the log; 0 if there is none.
-- name: EventNumbers :one
SELECT CAST(coalesce(min(id), 0) AS bigint) AS oldest, CAST(coalesce(max(id), 0) AS bigint) AS newest FROM events;

-- ListEvents lists the events of all owners. It is for instances, not for clients of the API.
-- name: ListEvents :many
SELECT * FROM events WHERE id > @after_id ORDER BY id LIMIT CAST(@max_rows AS bigint);

-- name: ListEventsOf :many
SELECT * FROM events WHERE owner = @owner AND thread_id = @thread_id AND id > @after_id ORDER BY id LIMIT CAST(@max_rows AS bigint);

-- ForgetEvents deletes the newest event that is so old, and all before it.
-- name: ForgetEvents :exec
DELETE FROM events WHERE id <= (SELECT max(e.id) FROM events AS e WHERE e.at < @before);

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
