-- ListOpenInstances lists the instances that have something open. This file's queries
-- cover all owners: they are for recovery, not for clients of the API. SQLite does not see
-- that what is being sent is not sent yet, and has an index only of that.
-- name: ListOpenInstances :many
SELECT c.instance FROM calls AS c WHERE c.ended_at IS NULL
UNION
SELECT m.instance FROM messages AS m WHERE m.status = 'in_progress'
UNION
SELECT tc.instance FROM tool_calls AS tc WHERE tc.status = 'running'
UNION
SELECT r.instance FROM responses AS r WHERE r.status = 'in_progress'
UNION
SELECT u.instance FROM turns AS u WHERE u.ended_at IS NULL
UNION
SELECT q.instance FROM queued_messages AS q WHERE q.state <> 'sent' AND q.state = 'sending'
UNION
SELECT d.instance FROM hook_deliveries AS d WHERE d.instance <> ''
UNION
SELECT x.extraction_by FROM calls AS x WHERE (x.extraction = 'waiting' OR x.extraction = 'running') AND x.extraction = 'running'
UNION
SELECT l.instance FROM upstream_legs AS l WHERE l.hung_up_at IS NULL AND l.attempts = 0 AND l.next_try_at IS NULL;

-- name: GetOwner :one
SELECT owner FROM threads WHERE id = @id;

-- name: ListOpenCalls :many
SELECT * FROM calls WHERE ended_at IS NULL AND instance = @instance ORDER BY thread_id;

-- name: EndOpenCalls :exec
UPDATE calls SET ended_at = @ended_at, end_reason = @end_reason
WHERE ended_at IS NULL AND instance = @instance;

-- ListOpenMessages includes finished messages with a running tool call.
-- name: ListOpenMessages :many
SELECT m.* FROM messages AS m
WHERE (m.status = 'in_progress' AND m.instance = @instance)
    OR m.id IN (SELECT tc.message_id FROM tool_calls AS tc WHERE tc.status = 'running' AND tc.instance = @instance)
ORDER BY m.thread_id, m.seq;

-- name: FailOpenToolCalls :exec
UPDATE tool_calls SET status = 'failed', error = @error, finished_at = @finished_at
WHERE status = 'running' AND instance = @instance;

-- name: FailOpenResponses :exec
UPDATE responses SET status = 'failed', status_reason = @status_reason, finished_at = @finished_at
WHERE status = 'in_progress' AND instance = @instance;

-- name: EndOpenTurns :exec
DELETE FROM turns WHERE ended_at IS NULL AND instance = @instance;

-- RequeueOpen puts what was not sent back at the head of its queue.
-- name: RequeueOpen :exec
UPDATE queued_messages SET state = 'queued', instance = ''
WHERE state = 'sending' AND instance = @instance;

-- name: CloseOpenApprovals :exec
UPDATE approvals SET outcome = @outcome, answered_at = @answered_at
WHERE outcome = '' AND instance = @instance;
