-- SaveLeg is idempotent. A leg that has ended or was hung up stays so. It changes
-- nothing if the leg belongs to another thread, and fails if the thread belongs to
-- another owner.
-- name: SaveLeg :execrows
INSERT INTO upstream_legs (
    call_id, generation, thread_id, upstream, upstream_id, instance, started_at, ended_at, reason, hung_up_at, attempts
) VALUES (
    @call_id, @generation, (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner),
    @upstream, @upstream_id, @instance, @started_at, @ended_at, @reason, @hung_up_at, 0
)
ON CONFLICT (call_id, generation) DO UPDATE SET
    upstream = excluded.upstream, upstream_id = excluded.upstream_id, instance = excluded.instance,
    ended_at = COALESCE(upstream_legs.ended_at, excluded.ended_at),
    reason = CASE WHEN upstream_legs.ended_at IS NULL THEN excluded.reason ELSE upstream_legs.reason END,
    hung_up_at = COALESCE(upstream_legs.hung_up_at, excluded.hung_up_at)
WHERE upstream_legs.thread_id = excluded.thread_id;

-- ListLegsToHangUp lists legs of all owners. A leg is due if it has ended, or its call
-- has, or its thread is gone, and the process that ended it has had the time to hang it
-- up (settled_by); after that, whenever its next attempt is due.
-- name: ListLegsToHangUp :many
SELECT l.* FROM upstream_legs AS l
LEFT JOIN calls AS c ON c.id = l.call_id
WHERE l.hung_up_at IS NULL AND l.upstream = @upstream AND l.upstream_id <> ''
    AND (l.ended_at IS NOT NULL OR c.id IS NULL OR c.ended_at IS NOT NULL)
    AND (l.next_try_at <= @now OR (l.next_try_at IS NULL AND COALESCE(l.ended_at, c.ended_at, l.started_at) <= @settled_by))
ORDER BY l.started_at
LIMIT CAST(@max_rows AS bigint);

-- ClaimLeg changes nothing if another process was faster.
-- name: ClaimLeg :execrows
UPDATE upstream_legs SET attempts = attempts + 1, next_try_at = @next_try_at
WHERE call_id = @call_id AND generation = @generation AND attempts = @attempts AND hung_up_at IS NULL;

-- name: LegHungUp :exec
UPDATE upstream_legs SET hung_up_at = @hung_up_at, ended_at = COALESCE(ended_at, @hung_up_at)
WHERE call_id = @call_id AND generation = @generation AND hung_up_at IS NULL;

-- ForgetLegs deletes the legs of a call that were hung up, if its thread is deleted.
-- name: ForgetLegs :exec
DELETE FROM upstream_legs
WHERE call_id = @call_id AND hung_up_at IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM threads AS t WHERE t.id = upstream_legs.thread_id AND t.owner <> '');

-- ForgetOldLegs deletes the legs of deleted threads that could not be hung up since a
-- time: by now the upstream has ended them by itself.
-- name: ForgetOldLegs :exec
DELETE FROM upstream_legs
WHERE hung_up_at IS NULL AND started_at < @before
    AND NOT EXISTS (SELECT 1 FROM threads AS t WHERE t.id = upstream_legs.thread_id);

-- name: EndOpenLegs :exec
UPDATE upstream_legs SET
    ended_at = COALESCE(ended_at, @ended_at),
    reason = CASE WHEN ended_at IS NULL THEN @reason ELSE reason END,
    next_try_at = @ended_at
WHERE hung_up_at IS NULL AND instance = @instance AND attempts = 0;

-- EraseLegs deletes the legs of a thread that were hung up.
-- name: EraseLegs :exec
DELETE FROM upstream_legs WHERE hung_up_at IS NOT NULL AND thread_id = @thread_id;
