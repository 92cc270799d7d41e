-- InsertQueued adds a message at the end. The caller has locked the thread's row.
-- name: InsertQueued :one
INSERT INTO queued_messages (
    id, thread_id, state, position, message, title, image_ids, client_id, idempotency_key,
    attempts, error, scheduled_at, queued_at, message_id, instance
)
VALUES (
    @id, (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner),
    'queued',
    (SELECT CAST(coalesce(max(q.position), 0) + 1 AS bigint) FROM queued_messages AS q WHERE q.thread_id = @thread_id),
    @message, '', @image_ids, @client_id, @idempotency_key,
    0, '', @scheduled_at, @queued_at, @message_id, ''
)
RETURNING *;

-- name: CountQueued :one
SELECT count(*) FROM queued_messages AS q
JOIN threads AS t ON t.id = q.thread_id
WHERE q.thread_id = @thread_id AND t.owner = @owner AND q.state IN ('queued', 'sending');

-- CountUnsent counts up to one, and also what is being answered, unlike CountQueued.
-- name: CountUnsent :one
SELECT count(*) FROM (
    SELECT q.id FROM queued_messages AS q
    JOIN threads AS t ON t.id = q.thread_id
    WHERE q.thread_id = @thread_id AND t.owner = @owner AND q.state <> 'sent'
    LIMIT 1
) AS x;

-- CountAllUnsent counts for all owners. It is for operators, not for clients of the API.
-- name: CountAllUnsent :one
SELECT count(*) FROM queued_messages WHERE state <> 'sent';

-- name: GetQueued :one
SELECT q.* FROM queued_messages AS q
JOIN threads AS t ON t.id = q.thread_id
WHERE q.id = @id AND q.thread_id = @thread_id AND t.owner = @owner;

-- name: GetQueuedByKey :one
SELECT q.* FROM queued_messages AS q
JOIN threads AS t ON t.id = q.thread_id
WHERE q.idempotency_key = @idempotency_key AND q.thread_id = @thread_id AND t.owner = @owner;

-- ListQueued lists what is not done, in the order in which it is sent: first what was
-- begun, then what has no scheduled time, then by scheduled time.
-- name: ListQueued :many
SELECT q.* FROM queued_messages AS q
JOIN threads AS t ON t.id = q.thread_id
WHERE q.thread_id = @thread_id AND t.owner = @owner AND q.state <> 'sent'
    AND (q.scheduled_at IS NULL OR q.scheduled_at <= @due_by)
ORDER BY CASE WHEN q.attempts > 0 THEN 0 ELSE 1 END, CASE WHEN q.scheduled_at IS NULL THEN 0 ELSE 1 END, q.scheduled_at, q.position
LIMIT CAST(@max_rows AS bigint);

-- name: ChangeQueued :execrows
UPDATE queued_messages SET
    state = @state, position = @position, message = @message, attempts = @attempts,
    error = @error, sent_at = @sent_at, message_id = @message_id, instance = @instance, not_before = @not_before
WHERE queued_messages.id = @id
    AND queued_messages.thread_id = (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner);

-- name: TitleQueued :execrows
UPDATE queued_messages SET title = @title
WHERE queued_messages.id = @id
    AND queued_messages.thread_id = (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner);

-- name: DeleteQueued :execrows
DELETE FROM queued_messages
WHERE queued_messages.id = @id AND queued_messages.state = 'queued'
    AND queued_messages.thread_id = (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner);

-- ClearQueued keeps what is being sent or answered.
-- name: ClearQueued :execrows
DELETE FROM queued_messages
WHERE queued_messages.state = 'queued'
    AND queued_messages.thread_id = (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner);

-- name: PauseQueue :exec
INSERT INTO queue_pauses (thread_id, reason, message, paused_at)
VALUES ((SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner), @reason, @message, @paused_at)
ON CONFLICT (thread_id) DO UPDATE SET reason = excluded.reason, message = excluded.message, paused_at = excluded.paused_at;

-- name: ResumeQueue :execrows
DELETE FROM queue_pauses
WHERE queue_pauses.thread_id = (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner);

-- ListPausedQueues lists the queues of all owners that are paused for one reason. It is
-- for the start of a process.
-- name: ListPausedQueues :many
SELECT t.id, t.owner FROM queue_pauses AS p
JOIN threads AS t ON t.id = p.thread_id
WHERE p.reason = @reason AND t.owner <> ''
ORDER BY t.updated_at DESC, t.id;

-- name: GetQueuePause :one
SELECT p.* FROM queue_pauses AS p
JOIN threads AS t ON t.id = p.thread_id
WHERE p.thread_id = @thread_id AND t.owner = @owner;

-- ListDueQueues lists the threads of all owners on which this process may send
-- something now, the most recently used first. It is for the dispatcher, not for
-- clients of the API.
-- name: ListDueQueues :many
SELECT t.id, t.owner FROM threads AS t
WHERE t.owner <> '' AND t.id IN (
        SELECT q.thread_id FROM queued_messages AS q
        WHERE q.state <> 'sent'
            AND (q.state <> 'sending' OR q.instance = @instance)
            AND (q.not_before IS NULL OR q.not_before <= @now)
            AND (q.scheduled_at IS NULL OR q.scheduled_at <= @now)
    )
    AND NOT EXISTS (SELECT 1 FROM queue_pauses AS p WHERE p.thread_id = t.id)
    AND NOT EXISTS (SELECT 1 FROM turns AS u WHERE u.thread_id = t.id AND u.ended_at IS NULL)
    AND NOT EXISTS (SELECT 1 FROM calls AS c WHERE c.thread_id = t.id AND c.ended_at IS NULL AND c.instance <> @instance)
ORDER BY t.updated_at DESC, t.id
LIMIT CAST(@max_rows AS bigint);
