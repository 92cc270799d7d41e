-- ListHooksFor lists the hooks that get an event.
-- name: ListHooksFor :many
SELECT id FROM hooks
WHERE (owner = @owner OR owner = '') AND enabled
    AND (events LIKE CAST(@exact AS text) OR events LIKE CAST(@alike AS text) OR events LIKE '% * %')
ORDER BY id;

-- ClaimDeliveries takes what is due.
-- name: ClaimDeliveries :many
UPDATE hook_deliveries SET instance = @instance, attempts = attempts + 1, begun_at = coalesce(begun_at, @now)
WHERE hook_deliveries.hook_id = @hook_id AND hook_deliveries.id IN (
    SELECT d.id FROM hook_deliveries AS d
    WHERE d.hook_id = @hook_id AND d.state = 'waiting' AND d.instance = '' AND d.next_at <= @now
    ORDER BY d.next_at
    LIMIT CAST(@max_rows AS bigint)
)
RETURNING *;
