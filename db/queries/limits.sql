-- BeginRate locks the rate's row, adding it if needed, so that no instance deletes it
-- before TakeRate.
-- name: BeginRate :exec
INSERT INTO rates (name, full_at) VALUES (@name, @now) ON CONFLICT (name) DO UPDATE SET full_at = rates.full_at;

-- TakeRate counts one use. If nothing is left it changes nothing.
-- name: TakeRate :execrows
UPDATE rates SET full_at = CASE WHEN full_at > CAST(@now AS bigint) THEN full_at ELSE CAST(@now AS bigint) END + CAST(@step AS bigint)
WHERE name = @name
    AND CASE WHEN full_at > CAST(@now AS bigint) THEN full_at ELSE CAST(@now AS bigint) END + CAST(@step AS bigint) <= CAST(@latest AS bigint);

-- name: GetRate :one
SELECT full_at FROM rates WHERE name = @name;

-- name: ForgetRates :exec
DELETE FROM rates WHERE full_at < @now;

-- ListOwnersLiveCalls lists the live calls of an owner, except on one thread.
-- name: ListOwnersLiveCalls :many
SELECT c.id, c.thread_id, c.instance FROM calls AS c
JOIN threads AS t ON t.id = c.thread_id
WHERE c.ended_at IS NULL AND c.thread_id <> @thread_id AND t.owner = @owner;

-- CountOwnersTurns counts the text turns of an owner, except on one thread.
-- name: CountOwnersTurns :one
SELECT count(*) FROM turns AS u
JOIN threads AS t ON t.id = u.thread_id
WHERE u.ended_at IS NULL AND u.thread_id <> @thread_id AND t.owner = @owner;

-- CountThreads counts the threads of an owner, up to max_rows.
-- name: CountThreads :one
SELECT count(*) FROM (SELECT 1 FROM threads WHERE owner = @owner LIMIT CAST(@max_rows AS bigint)) AS limited;

-- StoredBytes sums the sizes, in bytes, of an owner's messages and images, and of what is kept for the owner's hooks.
-- name: StoredBytes :one
SELECT CAST(
    (SELECT coalesce(sum(t.stored), 0) FROM threads AS t WHERE t.owner = @owner)
    + (SELECT coalesce(sum(i.size), 0) FROM images AS i JOIN threads AS t ON t.id = i.thread_id WHERE t.owner = @owner)
    + (SELECT coalesce(sum(d.size), 0) FROM hook_deliveries AS d JOIN hooks AS h ON h.id = d.hook_id WHERE h.owner = @owner) AS bigint
);
