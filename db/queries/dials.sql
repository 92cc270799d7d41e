-- InsertDial writes a call out unless one like it is there or goes on: of the same key, thread or number.
-- name: InsertDial :execrows
INSERT INTO dials (
    id, thread_id, owner, line, number, assistant_id, assistant_owner, variables, idempotency_key, request, state,
    end_reason, carrier_call, attempts, next_at, created_at
) SELECT
    @id, t.id, t.owner, @line, @number, @assistant_id, @assistant_owner, @variables, @idempotency_key, @request, 'queued',
    '', '', 0, @next_at, @created_at
FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner
ON CONFLICT DO NOTHING;

-- name: GetDial :one
SELECT * FROM dials WHERE id = @id AND owner = @owner;

-- name: GetDialByKey :one
SELECT * FROM dials WHERE owner = @owner AND idempotency_key = @idempotency_key;

-- name: ForgetDialKey :exec
UPDATE dials SET idempotency_key = NULL
WHERE owner = @owner AND idempotency_key = @idempotency_key AND created_at <= @before;

-- CountDials counts the calls out of a line that were not answered yet.
-- name: CountDials :one
SELECT count(*) FROM dials WHERE line = @line AND state IN ('queued', 'ringing');

-- SaveDial writes what changes of a call out. The caller has locked the thread's row.
-- name: SaveDial :exec
UPDATE dials SET
    state = @state, end_reason = @end_reason, carrier_call = @carrier_call, asked_at = @asked_at, attempts = @attempts,
    next_at = @next_at, ended_at = @ended_at
WHERE id = @id;

-- ListDialsDue lists the calls out of all owners that are to be looked after. It is for whoever dials.
-- name: ListDialsDue :many
SELECT d.* FROM dials AS d
JOIN threads AS t ON t.id = d.thread_id AND t.owner = d.owner
WHERE d.next_at IS NOT NULL AND d.next_at <= @now
ORDER BY d.next_at
LIMIT CAST(@max_rows AS bigint);

-- ClaimDial makes one process look after a call out until next_at. From then on the carrier may have been asked for it.
-- name: ClaimDial :execrows
UPDATE dials SET asked_at = coalesce(asked_at, @now), attempts = attempts + 1, next_at = @next_at
WHERE id = @id AND attempts = @attempts AND next_at <= @now;
