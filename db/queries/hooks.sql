-- name: InsertHook :exec
INSERT INTO hooks (id, owner, url, events, enabled, off_reason, secret, created_at)
VALUES (@id, @owner, @url, @events, @enabled, '', @secret, @created_at);

-- KeepOperatorHook saves a hook of the settings, and switches it on.
-- name: KeepOperatorHook :exec
INSERT INTO hooks (id, owner, url, events, enabled, off_reason, secret, created_at)
VALUES (@id, '', @url, @events, @enabled, '', '', @created_at)
ON CONFLICT (id) DO UPDATE SET url = excluded.url, events = excluded.events, enabled = excluded.enabled, off_reason = '';

-- name: ListHooks :many
SELECT * FROM hooks WHERE owner = @owner ORDER BY created_at, id;

-- name: GetHook :one
SELECT * FROM hooks WHERE id = @id AND owner = @owner;

-- FindHook is for whoever delivers, not for clients of the API.
-- name: FindHook :one
SELECT * FROM hooks WHERE id = @id;

-- name: ChangeHook :execrows
UPDATE hooks SET url = @url, events = @events, enabled = @enabled, off_reason = '' WHERE id = @id AND owner = @owner;

-- name: SwitchHookOff :exec
UPDATE hooks SET enabled = @enabled, off_reason = @off_reason WHERE id = @id;

-- name: DeleteHook :execrows
DELETE FROM hooks WHERE id = @id AND owner = @owner;

-- ListDueHooks lists the hooks of all owners with something to deliver. It is for whoever delivers.
-- name: ListDueHooks :many
SELECT h.id FROM hooks AS h
WHERE h.enabled AND EXISTS (
    SELECT 1 FROM hook_deliveries AS d WHERE d.hook_id = h.id AND d.state = 'waiting' AND d.instance = '' AND d.next_at <= @now
);

-- AddDelivery writes an event that a hook has no second time, only anew if nobody has tried to deliver it. The caller has locked the thread's row and the hook's.
-- name: AddDelivery :execrows
INSERT INTO hook_deliveries (
    hook_id, id, thread_id, type, body, state, attempts, failures, instance, last_status, last_error, created_at, next_at, size
) VALUES (
    @hook_id, @id, @thread_id, @type, @body, 'waiting', 0, 0, '', 0, '', @created_at, @created_at, @size
)
ON CONFLICT (hook_id, id) DO UPDATE SET body = excluded.body, size = excluded.size WHERE hook_deliveries.attempts = 0;

-- name: FinishDelivery :execrows
UPDATE hook_deliveries SET
    state = @state, failures = @failures, instance = '', last_status = @last_status, last_error = @last_error, next_at = @next_at, finished_at = @finished_at
WHERE hook_id = @hook_id AND id = @id AND instance = @instance AND attempts = @attempts;

-- ReleaseDeliveries lets others send what a process was sending.
-- name: ReleaseDeliveries :exec
UPDATE hook_deliveries SET instance = '' WHERE instance = @instance AND instance <> '';

-- ReleaseOfHook is ReleaseDeliveries for one hook.
-- name: ReleaseOfHook :exec
UPDATE hook_deliveries SET instance = '' WHERE instance = @instance AND instance <> '' AND hook_id = @hook_id;

-- name: ListDeliveries :many
SELECT d.* FROM hook_deliveries AS d
JOIN hooks AS h ON h.id = d.hook_id
WHERE d.hook_id = @hook_id AND h.owner = @owner
ORDER BY d.created_at DESC, d.id DESC
LIMIT CAST(@max_rows AS bigint);

-- name: GetDelivery :one
SELECT d.* FROM hook_deliveries AS d
JOIN hooks AS h ON h.id = d.hook_id
WHERE d.hook_id = @hook_id AND d.id = @id AND h.owner = @owner;

-- RetryDelivery begins again. It changes nothing while a process is sending.
-- name: RetryDelivery :execrows
UPDATE hook_deliveries SET state = 'waiting', failures = 0, begun_at = NULL, next_at = @next_at, finished_at = NULL
WHERE hook_id = @hook_id AND id = @id AND instance = '';

-- ForgetDeliveries deletes what was created before a time; so does the end of a hook or of a thread.
-- name: ForgetDeliveries :execrows
DELETE FROM hook_deliveries WHERE hook_deliveries.created_at < @before AND hook_deliveries.instance = ''
    AND (hook_deliveries.state <> 'waiting' OR hook_deliveries.created_at < @waiting_before);

-- name: EraseDeliveries :exec
DELETE FROM hook_deliveries WHERE thread_id = @thread_id;

-- CallTotals sums what the models of a call used.
-- name: CallTotals :one
SELECT
    CAST(coalesce(sum(r.input_tokens), 0) AS bigint) AS input_tokens,
    CAST(coalesce(sum(r.output_tokens), 0) AS bigint) AS output_tokens,
    CAST(coalesce(sum(r.cached_tokens), 0) AS bigint) AS cached_tokens,
    CAST(coalesce(sum(r.cost_usd), 0) AS double precision) AS cost_usd,
    count(r.cost_usd) AS priced
FROM responses AS r
WHERE r.thread_id = @thread_id AND r.call_id = @call_id;

-- CostsOfCalls sums what the models of a thread's calls have cost, as far as prices are known.
-- name: CostsOfCalls :many
SELECT r.call_id, CAST(sum(r.cost_usd) AS double precision) AS cost_usd
FROM responses AS r
JOIN threads AS t ON t.id = r.thread_id
WHERE r.thread_id = @thread_id AND t.owner = @owner AND r.cost_usd IS NOT NULL
GROUP BY r.call_id;

-- LastAnswer returns the last message of the assistant in a call.
-- name: LastAnswer :one
SELECT m.* FROM messages AS m
JOIN threads AS t ON t.id = m.thread_id
WHERE m.thread_id = @thread_id AND t.owner = @owner AND m.call_id = @call_id AND m.role = 'assistant'
ORDER BY m.seq DESC
LIMIT 1;

-- ListOpenToolCalls lists the tool calls of all owners that a process left open. It is for recovery.
-- name: ListOpenToolCalls :many
SELECT * FROM tool_calls WHERE status = 'running' AND instance = @instance ORDER BY thread_id;
