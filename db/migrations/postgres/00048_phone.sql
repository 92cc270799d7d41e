-- +goose Up

-- How a call came that is no browser's or app's: phone.
ALTER TABLE calls ADD COLUMN client text NOT NULL DEFAULT '';
-- Of a call by telephone: the name of the line, the number of who is not the assistant (+4930…, empty if it is withheld),
-- and inbound or outbound.
ALTER TABLE calls ADD COLUMN line text NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN caller text NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN direction text NOT NULL DEFAULT '';
CREATE INDEX calls_by_caller ON calls (line, caller, started_at) WHERE line <> '';

DROP VIEW IF EXISTS call_summary;
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
    c.upstream AS upstream,
    c.assistant_id AS assistant,
    c.summary AS summary,
    c.extracted AS extracted,
    c.caller AS caller,
    c.direction AS direction
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
