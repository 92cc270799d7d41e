-- ListHooksFor lists the hooks that get an event, and keeps them from being deleted until the end of the transaction.
-- name: ListHooksFor :many
SELECT id FROM hooks
WHERE (owner = @owner OR owner = '') AND enabled
    AND (events LIKE CAST(@exact AS text) OR events LIKE CAST(@alike AS text) OR events LIKE '% * %')
ORDER BY id
FOR KEY SHARE;

-- ClaimDeliveries takes what is due, so that no other process sends it while this one lives.
-- name: ClaimDeliveries :many
WITH due AS (
    SELECT d.id FROM hook_deliveries AS d
    WHERE d.hook_id = @hook_id AND d.state = 'waiting' AND d.instance = '' AND d.next_at <= @now
    ORDER BY d.next_at
    LIMIT CAST(@max_rows AS bigint)
    FOR UPDATE SKIP LOCKED
)
UPDATE hook_deliveries AS x SET instance = @instance, attempts = x.attempts + 1, begun_at = coalesce(x.begun_at, @now)
FROM due WHERE x.hook_id = @hook_id AND x.id = due.id
RETURNING x.*;
