-- name: SaveRecording :execrows
INSERT INTO recordings (call_id, started_at, duration_ms, bytes)
SELECT c.id, @started_at, @duration_ms, @bytes FROM calls AS c
JOIN threads AS t ON t.id = c.thread_id
WHERE c.id = @call_id AND t.owner = @owner
ON CONFLICT (call_id) DO UPDATE SET duration_ms = excluded.duration_ms, bytes = excluded.bytes;

-- name: GetRecording :one
SELECT r.* FROM recordings AS r
JOIN calls AS c ON c.id = r.call_id
JOIN threads AS t ON t.id = c.thread_id
WHERE r.call_id = @call_id AND t.owner = @owner;

-- ListRecordingsOver returns recordings whose call or thread was deleted, or that began too long ago.
-- name: ListRecordingsOver :many
SELECT r.call_id FROM recordings AS r
WHERE r.started_at < @before OR NOT EXISTS (
    SELECT 1 FROM calls AS c JOIN threads AS t ON t.id = c.thread_id WHERE c.id = r.call_id AND t.owner <> ''
)
ORDER BY r.started_at
LIMIT CAST(@max_rows AS bigint);

-- name: DeleteRecording :exec
DELETE FROM recordings WHERE call_id = @call_id;
