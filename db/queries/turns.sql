-- ClaimTurn changes nothing while another turn runs on the thread.
-- name: ClaimTurn :execrows
INSERT INTO turns (thread_id, id, instance, started_at, stop_asked_at, ended_at)
VALUES (
    (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner),
    @id, @instance, @started_at, NULL, NULL
)
ON CONFLICT (thread_id) DO UPDATE SET
    id = excluded.id, instance = excluded.instance, started_at = excluded.started_at, stop_asked_at = NULL, ended_at = NULL
WHERE turns.ended_at IS NOT NULL;

-- name: EndTurn :execrows
UPDATE turns SET ended_at = @ended_at
WHERE turns.id = @id AND turns.ended_at IS NULL
    AND turns.thread_id = (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner);

-- name: StopTurn :execrows
UPDATE turns SET stop_asked_at = @stop_asked_at
WHERE turns.ended_at IS NULL
    AND turns.thread_id = (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner);

-- LastTurn returns the text turn that runs on a thread, or ran last.
-- name: LastTurn :one
SELECT u.* FROM turns AS u
JOIN threads AS t ON t.id = u.thread_id
WHERE u.thread_id = @thread_id AND t.owner = @owner;

-- name: SaveTextSession :exec
INSERT INTO text_sessions (thread_id, provider, model, tools, defaults, created_at)
VALUES (
    (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner),
    @provider, @model, @tools, @defaults, @created_at
)
ON CONFLICT (thread_id) DO UPDATE SET
    provider = excluded.provider, model = excluded.model, tools = excluded.tools, defaults = excluded.defaults;

-- name: GetTextSession :one
SELECT s.* FROM text_sessions AS s
JOIN threads AS t ON t.id = s.thread_id
WHERE s.thread_id = @thread_id AND t.owner = @owner;

-- name: FailTextToolCalls :exec
UPDATE tool_calls SET status = 'failed', error = @error, finished_at = @finished_at
WHERE status = 'running' AND call_id = ''
    AND tool_calls.thread_id = (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner);

-- name: FailTextResponses :exec
UPDATE responses SET status = 'failed', status_reason = @status_reason, finished_at = @finished_at
WHERE status = 'in_progress' AND call_id = ''
    AND responses.thread_id = (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner);

-- name: CloseTextApprovals :exec
UPDATE approvals SET outcome = @outcome, answered_at = @answered_at
WHERE outcome = '' AND id IN (SELECT c.id FROM tool_calls AS c WHERE c.thread_id = @thread_id AND c.call_id = '')
    AND approvals.thread_id = (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner);
