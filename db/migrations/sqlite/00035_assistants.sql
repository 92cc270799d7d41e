-- +goose Up

-- A set of settings that an owner has made, under an id of their choice. What is in data is as the API shows it.
CREATE TABLE assistants (
    owner      text        NOT NULL,
    id         text        NOT NULL,
    -- whether all owners may use it
    shared     boolean     NOT NULL,
    data       json        NOT NULL,
    -- signs the requests of its HTTP tools
    secret     text        NOT NULL,
    created_at datetime    NOT NULL,
    updated_at datetime    NOT NULL,
    PRIMARY KEY (owner, id)
);
CREATE INDEX assistants_shared ON assistants (id) WHERE shared;

-- The assistant that answers, '' for the server's settings, and the values of its variables.
ALTER TABLE threads ADD COLUMN assistant_id text NOT NULL DEFAULT '';
ALTER TABLE threads ADD COLUMN variables json NOT NULL DEFAULT '{}';

ALTER TABLE calls ADD COLUMN assistant_id text NOT NULL DEFAULT '';
-- What the text model read in the call after its end.
ALTER TABLE calls ADD COLUMN extracted json;
ALTER TABLE calls ADD COLUMN summary text NOT NULL DEFAULT '';
-- Whether it does: '' no, 'waiting' until the call has ended and it is extraction_at, 'running' in the process
-- extraction_by, 'done', 'failed' with an error.
ALTER TABLE calls ADD COLUMN extraction text NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN extraction_attempts bigint NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN extraction_by text NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN extraction_at datetime;
ALTER TABLE calls ADD COLUMN extraction_error text NOT NULL DEFAULT '';
CREATE INDEX calls_extraction ON calls (extraction, started_at) WHERE extraction = 'waiting' OR extraction = 'running';

-- migrate:down: sqlc reads no further, because it does not understand the views; goose does.

DROP VIEW conversation_transcript;
-- What was said, in order, and the tools between it: a tool call is a row of its
-- own with the role tool and, as its text, the tool's name and its result in short. What was said
-- before a tool call and what was said after it are rows of their own. heard is
-- what was played of an answer that was interrupted.
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
    s.owner AS owner,
    coalesce(
        (SELECT c.assistant_id FROM calls AS c WHERE c.id = s.call_id AND c.thread_id = s.thread),
        (SELECT a.assistant_id FROM threads AS a WHERE a.id = s.thread)
    ) AS assistant
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

DROP VIEW call_summary;
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
    c.extracted AS extracted
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
