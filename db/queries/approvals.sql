-- SaveApproval saves an approval request. Saving it again changes nothing.
-- name: SaveApproval :execrows
INSERT INTO approvals (
    id, thread_id, tool_call_id, nonce, outcome, answered_by, instance, asked_at, expires_at, answered_at
) VALUES (
    @id, (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner),
    @tool_call_id, @nonce, '', '', @instance, @asked_at, @expires_at, NULL
)
ON CONFLICT (id) DO NOTHING;

-- AnswerApproval changes nothing unless the request is open and has this nonce.
-- name: AnswerApproval :execrows
UPDATE approvals SET outcome = @outcome, answered_by = @answered_by, answered_at = @answered_at
WHERE approvals.tool_call_id = @tool_call_id AND approvals.nonce = @nonce
    AND approvals.outcome = '' AND approvals.expires_at > @now
    AND approvals.thread_id = (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner);

-- CloseApproval closes a request that nobody has answered.
-- name: CloseApproval :execrows
UPDATE approvals SET outcome = @outcome, answered_at = @answered_at
WHERE approvals.id = @id AND approvals.outcome = ''
    AND approvals.thread_id = (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner);

-- SettleApproval saves the outcome on which the asker has acted, even over an answer
-- that came too late.
-- name: SettleApproval :exec
UPDATE approvals SET outcome = @outcome, answered_by = @answered_by, answered_at = @answered_at
WHERE approvals.id = @id AND approvals.outcome <> @outcome
    AND approvals.thread_id = (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner);

-- name: GetApproval :one
SELECT a.*, c.name, c.executor, c.input FROM approvals AS a
JOIN tool_calls AS c ON c.id = a.id
JOIN threads AS t ON t.id = a.thread_id
WHERE a.id = @id AND a.thread_id = @thread_id AND t.owner = @owner;

-- ListOpenApprovals lists the requests that the thread's watchers may answer: those of
-- typed turns and those of a call.
-- name: ListOpenApprovals :many
SELECT a.*, c.name, c.executor, c.input FROM approvals AS a
JOIN tool_calls AS c ON c.id = a.id
JOIN threads AS t ON t.id = a.thread_id
WHERE a.thread_id = @thread_id AND t.owner = @owner AND a.outcome = '' AND a.expires_at > @now
ORDER BY a.asked_at, a.id;
