-- +goose Up

-- What was said before a tool call and what was said after it are rows of their own.
DROP VIEW conversation_transcript;

CREATE VIEW conversation_transcript AS
SELECT
    s.thread AS thread,
    s.title AS title,
    row_number() OVER (PARTITION BY s.thread ORDER BY s.seq, s.place, s.rank) AS position,
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
        r.thread AS thread,
        r.title AS title,
        r.seq AS seq,
        r.first + 1 AS place,
        r.after_tool * 2 AS rank, -- behind the tool
        r.said_at AS said_at,
        r.source AS source,
        r.role AS role,
        r.status AS status,
        r.text || CASE WHEN r.status = 'in_progress' AND r.last THEN coalesce((
            SELECT group_concat(d.text, '') FROM (SELECT text FROM drafts WHERE message_id = r.message_id ORDER BY start) AS d
        ), '') ELSE '' END AS text,
        CASE WHEN r.status = 'interrupted' THEN
            CASE WHEN r.last THEN substr(r.heard_text, r.before + 1)
            ELSE trim(substr(r.heard_text, r.before + 1, length(r.text)), ' ' || char(10)) END
        END AS heard,
        r.message_id AS message_id,
        r.call_id AS call_id,
        r.owner AS owner,
        r.last AND r.message_text = '' AND NOT (r.role = 'assistant' AND r.status = 'completed') AS empty
    FROM (
        SELECT
            b.*,
            coalesce((
                SELECT group_concat(x.text, char(10)) FROM (
                    SELECT json_extract(e.value, '$.text') AS text FROM json_each(b.parts) AS e
                    WHERE e.key >= b.first AND e.key < b.next AND json_extract(e.value, '$.type') = 'text' AND json_extract(e.value, '$.text') <> ''
                    ORDER BY e.key
                ) AS x
            ), '') AS text,
            -- how many characters of the message's text come before
            coalesce((
                SELECT sum(length(json_extract(e.value, '$.text')) + 1) FROM json_each(b.parts) AS e
                WHERE e.key < b.first AND json_extract(e.value, '$.type') = 'text' AND json_extract(e.value, '$.text') <> ''
            ), 0) AS before,
            NOT EXISTS (SELECT 1 FROM json_each(b.parts) AS e WHERE e.key > b.next AND json_extract(e.value, '$.type') = 'text') AS last,
            EXISTS (
                SELECT 1 FROM json_each(b.parts) AS e WHERE e.key >= b.first AND e.key < b.next AND json_extract(e.value, '$.type') = 'text'
            ) AS any_text
        FROM (
            -- a run of text begins with the message and behind each tool, and ends before the next one
            SELECT
                m.thread_id AS thread,
                t.title AS title,
                m.seq AS seq,
                m.created_at AS said_at,
                m.source AS source,
                m.role AS role,
                m.status AS status,
                m.text AS message_text,
                m.heard_text AS heard_text,
                m.id AS message_id,
                m.call_id AS call_id,
                t.owner AS owner,
                m.parts AS parts,
                coalesce(f.key, 0) AS first,
                coalesce(json_extract(f.value, '$.type') = 'dynamic-tool' OR json_extract(f.value, '$.type') LIKE 'tool-%', 0) AS after_tool,
                coalesce((
                    SELECT min(n.key) FROM json_each(m.parts) AS n
                    WHERE n.key > f.key AND (json_extract(n.value, '$.type') = 'dynamic-tool' OR json_extract(n.value, '$.type') LIKE 'tool-%')
                ), 1000000000) AS next
            FROM messages AS m
            JOIN threads AS t ON t.id = m.thread_id
            LEFT JOIN json_each(m.parts) AS f ON f.key = 0 OR json_extract(f.value, '$.type') = 'dynamic-tool' OR json_extract(f.value, '$.type') LIKE 'tool-%'
            WHERE t.owner <> ''
        ) AS b
    ) AS r
    WHERE r.any_text OR r.first = 0 AND r.last
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
        t.owner,
        0
    FROM messages AS m
    JOIN threads AS t ON t.id = m.thread_id
    JOIN json_each(m.parts) AS e
    WHERE t.owner <> '' AND (json_extract(e.value, '$.type') = 'dynamic-tool' OR json_extract(e.value, '$.type') LIKE 'tool-%')
) AS s
WHERE s.text <> '' OR s.empty
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
