-- +goose Up

-- What was said, in order, and the tools between it: a tool call is a row of its
-- own with the role tool and, as its text, the tool's name and its result in short. heard is
-- what was played of an answer that was interrupted.
CREATE OR REPLACE VIEW conversation_transcript AS
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
        CASE WHEN m.status = 'in_progress' THEN m.text || coalesce((
            SELECT string_agg(d.text, '' ORDER BY d.start) FROM drafts AS d WHERE d.message_id = m.id
        ), '') ELSE m.text END AS text,
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

-- +goose Down
-- What was said, in order, and the tools between it: a tool call is a row of its
-- own with the role tool and, as its text, the tool's name and its result in short. heard is
-- what was played of an answer that was interrupted.
CREATE OR REPLACE VIEW conversation_transcript AS
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
