-- +goose Up

-- The view must be readable with any sqlite3 of recent years: group_concat with ORDER BY
-- is new in SQLite 3.44, and older ones, such as Debian 12's, then refuse the whole file.
DROP VIEW conversation_transcript;

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
        CASE WHEN m.status = 'in_progress' THEN m.text || coalesce((
            SELECT group_concat(d.text, '') FROM (SELECT text FROM drafts WHERE message_id = m.id ORDER BY start) AS d
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
    WHERE t.owner <> '' AND (json_extract(e.value, '$.type') = 'dynamic-tool' OR json_extract(e.value, '$.type') LIKE 'tool-%')
) AS s
ORDER BY thread, position;

-- +goose Down
DROP VIEW conversation_transcript;

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
        CASE WHEN m.status = 'in_progress' THEN m.text || coalesce((
            SELECT group_concat(d.text, '' ORDER BY d.start) FROM drafts AS d WHERE d.message_id = m.id
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
    WHERE t.owner <> '' AND (json_extract(e.value, '$.type') = 'dynamic-tool' OR json_extract(e.value, '$.type') LIKE 'tool-%')
) AS s
ORDER BY thread, position;
