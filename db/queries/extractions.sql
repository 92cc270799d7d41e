-- The conditions on extraction that repeat themselves are those of its index, which SQLite looks for.

-- FinishExtraction records what became of reading a call, unless others took the process for dead meanwhile.
-- name: FinishExtraction :execrows
UPDATE calls SET
    extraction = @extraction, extraction_by = '', extraction_at = @extraction_at, extraction_error = @extraction_error,
    extraction_attempts = @extraction_attempts, summary = @summary, extracted = @extracted
WHERE id = @id AND extraction = 'running' AND extraction_by = @instance;

-- ReleaseExtractions lets others read the calls that a process was reading.
-- name: ReleaseExtractions :exec
UPDATE calls SET extraction = 'waiting', extraction_by = ''
WHERE (extraction = 'waiting' OR extraction = 'running') AND extraction = 'running' AND extraction_by = @instance;

-- CountExtractions counts the calls of all owners that are to be read, or that the process may be reading, up to one: it
-- spares most claims their transaction.
-- name: CountExtractions :one
SELECT count(*) FROM (
    SELECT c.id FROM calls AS c
    WHERE (c.extraction = 'waiting' OR c.extraction = 'running') AND c.ended_at IS NOT NULL
        AND (c.extraction = 'waiting' AND (c.extraction_at IS NULL OR c.extraction_at <= @now) OR c.extraction = 'running' AND c.extraction_by = @instance)
    LIMIT 1
) AS x;
