-- +goose Up

-- the upstream whose voice model it was; empty in a text turn
ALTER TABLE responses ADD COLUMN upstream text NOT NULL DEFAULT '';
-- Until now all answers of a call were said to be of one upstream.
UPDATE responses SET upstream = coalesce((
    SELECT c.upstream FROM calls AS c WHERE c.id = responses.call_id AND c.thread_id = responses.thread_id
), '') WHERE call_id <> '';

-- migrate:down: sqlc reads no further, because it does not understand the views; goose does.

DROP VIEW call_summary;

-- Every voice call with what it took, the oldest first. answer_p50_ms is the
-- median time from the end of the user's speech to the first audio, renewals how
-- often the upstream's session was replaced, upstream the last one's name.
CREATE VIEW call_summary AS
SELECT
    c.thread_id AS thread,
    to_char(c.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS started_at,
    to_char(c.ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS ended_at,
    c.end_reason AS end_reason,
    c.turns AS turns,
    c.interruptions AS interruptions,
    CAST(coalesce(r.tokens, 0) AS bigint) AS tokens,
    r.cost_usd AS cost_usd,
    r.answer_p50_ms AS answer_p50_ms,
    c.id AS call_id,
    c.model AS model,
    c.voice AS voice,
    CAST(coalesce(l.renewals, 0) AS bigint) AS renewals,
    t.owner AS owner,
    c.upstream AS upstream
FROM calls AS c
JOIN threads AS t ON t.id = c.thread_id
LEFT JOIN (
    -- the sessions after the first
    SELECT call_id, count(*) - 1 AS renewals FROM upstream_legs GROUP BY call_id
) AS l ON l.call_id = c.id
LEFT JOIN (
    SELECT
        thread_id,
        call_id,
        sum(input_tokens + output_tokens) AS tokens,
        CAST(round(CAST(sum(cost_usd) AS numeric), 6) AS double precision) AS cost_usd,
        CAST(round(CAST(percentile_cont(0.5) WITHIN GROUP (ORDER BY answer_ms) AS numeric)) AS bigint) AS answer_p50_ms
    FROM responses
    GROUP BY thread_id, call_id
) AS r ON r.call_id = c.id AND r.thread_id = c.thread_id
WHERE t.owner <> ''
ORDER BY c.started_at, c.id;
