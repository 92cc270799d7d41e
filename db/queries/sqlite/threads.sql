-- LockThread need not lock: SQLite runs one writing transaction at a time.
-- name: LockThread :one
SELECT id FROM threads WHERE id = @id AND owner = @owner;

-- name: LockOpenThreads :many
SELECT t.id, t.owner FROM threads AS t WHERE t.id IN (
    SELECT c.thread_id FROM calls AS c WHERE c.ended_at IS NULL AND c.instance = @instance
    UNION
    SELECT m.thread_id FROM messages AS m WHERE m.status = 'in_progress' AND m.instance = @instance
    UNION
    SELECT tc.thread_id FROM tool_calls AS tc WHERE tc.status = 'running' AND tc.instance = @instance
    UNION
    SELECT r.thread_id FROM responses AS r WHERE r.status = 'in_progress' AND r.instance = @instance
    UNION
    SELECT u.thread_id FROM turns AS u WHERE u.ended_at IS NULL AND u.instance = @instance
)
ORDER BY t.id;
