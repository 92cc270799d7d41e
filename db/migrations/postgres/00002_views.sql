-- +goose Up

-- What was said, in order. Answers that hold only tool calls are left out:
-- tool_call_log shows those.
CREATE VIEW conversation_transcript AS
SELECT
    m.thread_id AS thread,
    t.title AS title,
    row_number() OVER (PARTITION BY m.thread_id ORDER BY m.seq) AS position,
    to_char(m.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS said_at,
    m.source AS source,
    m.role AS role,
    m.status AS status,
    m.text AS text
FROM messages AS m
JOIN threads AS t ON t.id = m.thread_id
WHERE NOT (m.text = '' AND m.role = 'assistant' AND m.status = 'completed')
ORDER BY m.thread_id, m.seq;

-- Every function call of a model, the oldest first.
CREATE VIEW tool_call_log AS
SELECT
    c.thread_id AS thread,
    c.name AS name,
    c.executor AS executor,
    c.server AS server,
    c.status AS status,
    CAST(trunc(extract(epoch FROM c.finished_at - c.started_at) * 1000) AS bigint) AS duration_ms,
    c.input AS input,
    c.output AS output,
    c.error AS error
FROM tool_calls AS c
ORDER BY c.started_at, c.id;

-- Every voice call with what it took, the oldest first. answer_p50_ms is the
-- median time from the end of the user's speech to the first audio.
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
    r.answer_p50_ms AS answer_p50_ms
FROM calls AS c
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
ORDER BY c.started_at, c.id;

-- +goose Down
DROP VIEW call_summary;
DROP VIEW tool_call_log;
DROP VIEW conversation_transcript;
