-- KeepShare changes nothing if the thread is shared. It fails if the thread belongs to another owner (thread_id is NULL).
-- name: KeepShare :exec
INSERT INTO shares (thread_id, token, created_at)
VALUES ((SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner), @token, @created_at)
ON CONFLICT (thread_id) DO NOTHING;

-- name: GetShare :one
SELECT s.token FROM shares AS s
JOIN threads AS t ON t.id = s.thread_id
WHERE s.thread_id = @thread_id AND t.owner = @owner;

-- name: FindShared :one
SELECT t.id, t.owner FROM shares AS s
JOIN threads AS t ON t.id = s.thread_id
WHERE s.token = @token AND t.owner <> '';

-- name: DeleteShare :execrows
DELETE FROM shares WHERE shares.thread_id = (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner);

-- name: ListCallsOf :many
SELECT c.* FROM calls AS c
JOIN threads AS t ON t.id = c.thread_id
WHERE c.thread_id = @thread_id AND t.owner = @owner
ORDER BY c.started_at, c.id;

-- name: ListImagesOf :many
SELECT i.id FROM images AS i
JOIN threads AS t ON t.id = i.thread_id
WHERE i.thread_id = @thread_id AND t.owner = @owner
ORDER BY i.id;

-- name: ListRecordingsOf :many
SELECT r.* FROM recordings AS r
JOIN calls AS c ON c.id = r.call_id
JOIN threads AS t ON t.id = c.thread_id
WHERE t.owner = @owner
ORDER BY r.started_at, r.call_id;

-- name: EraseAssistantsOf :exec
DELETE FROM assistants WHERE owner = @owner;

-- LeaveAssistantsOf brings the server's settings back to the threads of all owners that have an assistant of an owner.
-- name: LeaveAssistantsOf :exec
UPDATE threads SET assistant_id = '', assistant_owner = '' WHERE assistant_owner = @owner AND assistant_owner <> '';

-- LeaveAssistantsOfCalls is LeaveAssistantsOf for the records of calls.
-- name: LeaveAssistantsOfCalls :exec
UPDATE calls SET assistant_id = '', assistant_owner = '' WHERE assistant_owner = @owner AND assistant_owner <> '';

-- EraseEvents deletes what followers of a thread learn.
-- name: EraseEvents :exec
DELETE FROM events WHERE thread_id = @thread_id;

-- EraseEventsOf deletes what followers of an owner learn, and what others ask of processes in the owner's name.
-- name: EraseEventsOf :exec
DELETE FROM events WHERE owner = @owner;

-- name: EraseCommandsOf :exec
DELETE FROM commands WHERE owner = @owner;

-- name: EraseHooksOf :exec
DELETE FROM hooks WHERE owner = @owner;

-- name: ListToolCallsOf :many
SELECT c.* FROM tool_calls AS c
JOIN threads AS t ON t.id = c.thread_id
WHERE c.thread_id = @thread_id AND t.owner = @owner
ORDER BY c.started_at, c.id;

-- name: ListResponsesOf :many
SELECT r.* FROM responses AS r
JOIN threads AS t ON t.id = r.thread_id
WHERE r.thread_id = @thread_id AND t.owner = @owner
ORDER BY r.created_at, r.id;
