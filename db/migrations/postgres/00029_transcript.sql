-- +goose Up

-- What was said before a tool call and what was said after it are rows of their own.
CREATE OR REPLACE VIEW conversation_transcript AS
SELECT
    s.thread AS thread,
    s.title AS title,
    row_number() OVER (PARTITION BY s.thread ORDER BY s.seq, s.place) AS position,
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
        coalesce(x.place, 0) AS place,
        to_char(m.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS said_at,
        m.source AS source,
        m.role AS role,
        m.status AS status,
        coalesce(x.text, '') || CASE WHEN m.status = 'in_progress' AND coalesce(x.last, true) THEN coalesce((
            SELECT string_agg(d.text, '' ORDER BY d.start) FROM drafts AS d WHERE d.message_id = m.id
        ), '') ELSE '' END AS text,
        CASE WHEN m.status = 'interrupted' THEN
            CASE WHEN coalesce(x.last, true) THEN substr(m.heard_text, coalesce(x.before, 0) + 1)
            ELSE btrim(substr(m.heard_text, x.before + 1, length(x.text)), E' \n') END
        END AS heard,
        m.id AS message_id,
        m.call_id AS call_id,
        t.owner AS owner,
        coalesce(x.last, true) AND m.text = '' AND NOT (m.role = 'assistant' AND m.status = 'completed') AS empty
    FROM messages AS m
    JOIN threads AS t ON t.id = m.thread_id
    LEFT JOIN LATERAL (
        SELECT
            min(p.place) AS place,
            string_agg(nullif(p.text, ''), E'\n' ORDER BY p.place) AS text,
            p.run = max(p.run) OVER () AS last,
            -- how many characters of the message's text come before
            CAST(coalesce(sum(length(string_agg(nullif(p.text, ''), E'\n')) + 1) OVER (
                ORDER BY p.run ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ), 0) AS int) AS before
        FROM (
            SELECT
                e.place AS place,
                e.part ->> 'type' AS type,
                e.part ->> 'text' AS text,
                count(*) FILTER (WHERE e.part ->> 'type' = 'dynamic-tool' OR e.part ->> 'type' LIKE 'tool-%') OVER (ORDER BY e.place) AS run
            FROM jsonb_array_elements(m.parts) WITH ORDINALITY AS e (part, place)
        ) AS p
        WHERE p.type = 'text'
        GROUP BY p.run
    ) AS x ON true
    WHERE t.owner <> ''
    UNION ALL
    SELECT
        m.thread_id,
        t.title,
        m.seq,
        e.place,
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
        t.owner,
        false
    FROM messages AS m
    JOIN threads AS t ON t.id = m.thread_id
    CROSS JOIN LATERAL jsonb_array_elements(m.parts) WITH ORDINALITY AS e (part, place)
    WHERE t.owner <> '' AND (e.part ->> 'type' = 'dynamic-tool' OR e.part ->> 'type' LIKE 'tool-%')
) AS s
WHERE s.text <> '' OR s.empty
ORDER BY thread, position;

-- +goose Down
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
    WHERE t.owner <> '' AND NOT (m.text = '' AND m.role = 'assistant' AND m.status = 'completed')
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
    WHERE t.owner <> '' AND (e.part ->> 'type' = 'dynamic-tool' OR e.part ->> 'type' LIKE 'tool-%')
) AS s
ORDER BY thread, position;
