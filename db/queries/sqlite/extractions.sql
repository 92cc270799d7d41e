-- ClaimExtraction takes an ended call of any owner that a text model is to read.
-- name: ClaimExtraction :one
UPDATE calls SET extraction = 'running', extraction_by = @instance, extraction_attempts = extraction_attempts + 1
WHERE calls.id = (
    SELECT c.id FROM calls AS c
    WHERE (c.extraction = 'waiting' OR c.extraction = 'running') AND c.extraction = 'waiting' AND c.ended_at IS NOT NULL AND (c.extraction_at IS NULL OR c.extraction_at <= @now)
    ORDER BY c.started_at
    LIMIT 1
)
RETURNING *;
