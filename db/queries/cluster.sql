-- ForgetCommands deletes what processes of versions before migration 47 have asked of others.
-- name: ForgetCommands :exec
DELETE FROM commands WHERE expires_at < @before;

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
