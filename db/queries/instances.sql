-- name: JoinInstance :exec
INSERT INTO instances (id, host, process, beats, beat_at, started_at)
VALUES (@id, @host, @process, 0, @started_at, @started_at);

-- Beat changes nothing if the instance was ended.
-- name: Beat :execrows
UPDATE instances SET beats = beats + 1, beat_at = @beat_at WHERE id = @id AND ended_at IS NULL;

-- name: SetInstanceAddress :exec
UPDATE instances SET url = @url, certificate = @certificate WHERE id = @id;

-- name: ListInstances :many
SELECT * FROM instances;

-- EndInstance changes nothing if there was another heartbeat.
-- name: EndInstance :execrows
UPDATE instances SET ended_at = @ended_at WHERE id = @id AND beats = @beats AND ended_at IS NULL;

-- name: LeaveInstance :exec
UPDATE instances SET ended_at = @ended_at WHERE id = @id AND ended_at IS NULL;

-- ForgetInstances deletes instances that ended before a time, or had their last heartbeat
-- before one and left nothing open, so that nobody ended them.
-- name: ForgetInstances :exec
DELETE FROM instances WHERE ended_at < @before OR beat_at < @silent_since;
