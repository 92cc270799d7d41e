-- +goose Up

DROP VIEW conversation_transcript;
DROP VIEW tool_call_log;
DROP VIEW call_summary;

-- What was said, in order, and the tools between it: a tool call is a row of its
-- own with the role tool and, as its text, the tool's name and its result in short. heard is
-- what was played of an answer that was interrupted.
CREATE VIEW conversation_transcript AS
SELECT
    s.thread AS thread,
    s.title AS title,
    row_number() OVER (PARTITION BY s.thread ORDER BY s.seq, s.place, s.is_tool) AS position,
    s.said_at AS said_at,
    s.source AS source,
    s.role AS role,
    s.status AS status,
    s.text AS text,
    s.heard AS heard,
    s.message_id AS message_id,
    s.call_id AS call_id,
    s.owner AS owner
FROM (
    SELECT
        m.thread_id AS thread,
        t.title AS title,
        m.seq AS seq,
        coalesce((
            SELECT min(e.place) FROM jsonb_array_elements(m.parts) WITH ORDINALITY AS e (part, place) WHERE e.part ->> 'type' = 'text'
        ), 0) AS place,
        0 AS is_tool,
        to_char(m.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS said_at,
        m.source AS source,
        m.role AS role,
        m.status AS status,
        m.text AS text,
        CASE WHEN m.status = 'interrupted' THEN m.heard_text END AS heard,
        m.id AS message_id,
        m.call_id AS call_id,
        t.owner AS owner
    FROM messages AS m
    JOIN threads AS t ON t.id = m.thread_id
    WHERE NOT (m.text = '' AND m.role = 'assistant' AND m.status = 'completed')
    UNION ALL
    SELECT
        m.thread_id,
        t.title,
        m.seq,
        e.place,
        1,
        to_char(m.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        m.source,
        'tool',
        CASE e.part ->> 'state' WHEN 'output-available' THEN 'completed' WHEN 'output-error' THEN 'failed' WHEN 'output-denied' THEN 'failed' ELSE 'in_progress' END,
        coalesce(e.part ->> 'toolName', substring(e.part ->> 'type' FROM 6)) || coalesce(': ' || coalesce(
            nullif(e.part ->> 'errorText', ''),
            CAST('"' || substring(
                e.part #>> '{callProviderMetadata,voicebridge,result}'
                FROM '^\{"summary":"((?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*)"'
            ) || '"' AS jsonb) #>> '{}',
            e.part -> 'output' ->> 'summary',
            e.part -> 'output' ->> 'message',
            e.part -> 'output' ->> 'title',
            left(e.part ->> 'output', 300)
        ), ''),
        NULL,
        m.id,
        m.call_id,
        t.owner
    FROM messages AS m
    JOIN threads AS t ON t.id = m.thread_id
    CROSS JOIN LATERAL jsonb_array_elements(m.parts) WITH ORDINALITY AS e (part, place)
    WHERE e.part ->> 'type' = 'dynamic-tool' OR e.part ->> 'type' LIKE 'tool-%'
) AS s
ORDER BY thread, position;

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
    c.error AS error,
    to_char(c.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS called_at,
    c.message_id AS message_id,
    c.call_id AS call_id,
    t.owner AS owner
FROM tool_calls AS c
JOIN threads AS t ON t.id = c.thread_id
ORDER BY c.started_at, c.id;

-- Every voice call with what it took, the oldest first. answer_p50_ms is the
-- median time from the end of the user's speech to the first audio, renewals how
-- often the upstream's session was replaced.
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
    t.owner AS owner
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
ORDER BY c.started_at, c.id;

-- +goose Down
DROP VIEW call_summary;
DROP VIEW tool_call_log;
DROP VIEW conversation_transcript;

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
