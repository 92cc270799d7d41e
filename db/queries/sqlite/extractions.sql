-- ClaimExtraction takes an ended call that a text model is to read, of an owner of whom none is being read.
-- name: ClaimExtraction :one
UPDATE calls SET extraction = 'running', extraction_by = @instance, extraction_attempts = extraction_attempts + 1
WHERE calls.id = (
    SELECT c.id FROM calls AS c
    WHERE (c.extraction = 'waiting' OR c.extraction = 'running') AND c.extraction = 'waiting' AND c.ended_at IS NOT NULL AND (c.extraction_at IS NULL OR c.extraction_at <= @now)
        AND NOT EXISTS (
            SELECT 1 FROM calls AS r JOIN threads AS rt ON rt.id = r.thread_id JOIN threads AS t ON t.owner = rt.owner
            WHERE (r.extraction = 'waiting' OR r.extraction = 'running') AND r.extraction = 'running' AND t.id = c.thread_id
        )
    ORDER BY c.started_at
    LIMIT 1
)
RETURNING *;
