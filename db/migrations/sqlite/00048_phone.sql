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
    c.started_at AS started_at,
    c.ended_at AS ended_at,
    c.end_reason AS end_reason,
    c.turns AS turns,
    c.interruptions AS interruptions,
    coalesce(r.tokens, 0) AS tokens,
    r.cost_usd AS cost_usd,
    p.answer_p50_ms AS answer_p50_ms,
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
        round(sum(cost_usd), 6) AS cost_usd
    FROM responses
    GROUP BY thread_id, call_id
) AS r ON r.call_id = c.id AND r.thread_id = c.thread_id
LEFT JOIN (
    -- the one or two in the middle
    SELECT thread_id, call_id, CAST(round(avg(answer_ms)) AS integer) AS answer_p50_ms
    FROM (
        SELECT
            thread_id,
            call_id,
            answer_ms,
            row_number() OVER (PARTITION BY thread_id, call_id ORDER BY answer_ms) AS place,
            count(*) OVER (PARTITION BY thread_id, call_id) AS amount
        FROM responses
        WHERE answer_ms IS NOT NULL
    )
    WHERE place IN ((amount + 1) / 2, (amount + 2) / 2)
    GROUP BY thread_id, call_id
) AS p ON p.call_id = c.id AND p.thread_id = c.thread_id
WHERE t.owner <> ''
ORDER BY c.started_at, c.id;
