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
            SELECT min(e.key + 1) FROM json_each(m.parts) AS e WHERE json_extract(e.value, '$.type') = 'text'
        ), 0) AS place,
        0 AS is_tool,
        m.created_at AS said_at,
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
        e.key + 1,
        1,
        m.created_at,
        m.source,
        'tool',
        CASE json_extract(e.value, '$.state') WHEN 'output-available' THEN 'completed' WHEN 'output-error' THEN 'failed' WHEN 'output-denied' THEN 'failed' ELSE 'in_progress' END,
        coalesce(json_extract(e.value, '$.toolName'), substr(json_extract(e.value, '$.type'), 6)) || coalesce(': ' || coalesce(
            nullif(json_extract(e.value, '$.errorText'), ''),
            CASE
                WHEN json_valid(json_extract(e.value, '$.callProviderMetadata.voicebridge.result'))
                THEN json_extract(json_extract(e.value, '$.callProviderMetadata.voicebridge.result'), '$.summary')
            END,
            json_extract(e.value, '$.output.summary'),
            json_extract(e.value, '$.output.message'),
            json_extract(e.value, '$.output.title'),
            substr(json_extract(e.value, '$.output'), 1, 300)
        ), ''),
        NULL,
        m.id,
        m.call_id,
        t.owner
    FROM messages AS m
    JOIN threads AS t ON t.id = m.thread_id
    JOIN json_each(m.parts) AS e
    WHERE json_extract(e.value, '$.type') = 'dynamic-tool' OR json_extract(e.value, '$.type') LIKE 'tool-%'
) AS s
ORDER BY thread, position;

-- Every function call of a model, the oldest first. Times are text with
-- microseconds at character 21: SQLite's own time functions round to
-- milliseconds, so whole seconds and the rest are counted apart.
CREATE VIEW tool_call_log AS
SELECT
    c.thread_id AS thread,
    c.name AS name,
    c.executor AS executor,
    c.server AS server,
    c.status AS status,
    (
        (unixepoch(substr(c.finished_at, 1, 19)) - unixepoch(substr(c.started_at, 1, 19))) * 1000000
        + CAST(substr(c.finished_at, 21, 6) AS integer) - CAST(substr(c.started_at, 21, 6) AS integer)
    ) / 1000 AS duration_ms,
    c.input AS input,
    c.output AS output,
    c.error AS error,
    c.started_at AS called_at,
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
    m.created_at AS said_at,
    m.source AS source,
    m.role AS role,
    m.status AS status,
    m.text AS text
FROM messages AS m
JOIN threads AS t ON t.id = m.thread_id
WHERE NOT (m.text = '' AND m.role = 'assistant' AND m.status = 'completed')
ORDER BY m.thread_id, m.seq;

-- Every function call of a model, the oldest first. Times are text with
-- microseconds at character 21: SQLite's own time functions round to
-- milliseconds, so whole seconds and the rest are counted apart.
CREATE VIEW tool_call_log AS
SELECT
    c.thread_id AS thread,
    c.name AS name,
    c.executor AS executor,
    c.server AS server,
    c.status AS status,
    (
        (unixepoch(substr(c.finished_at, 1, 19)) - unixepoch(substr(c.started_at, 1, 19))) * 1000000
        + CAST(substr(c.finished_at, 21, 6) AS integer) - CAST(substr(c.started_at, 21, 6) AS integer)
    ) / 1000 AS duration_ms,
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
    c.started_at AS started_at,
    c.ended_at AS ended_at,
    c.end_reason AS end_reason,
    c.turns AS turns,
    c.interruptions AS interruptions,
    coalesce(r.tokens, 0) AS tokens,
    r.cost_usd AS cost_usd,
    p.answer_p50_ms AS answer_p50_ms
FROM calls AS c
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
ORDER BY c.started_at, c.id;
