-- +goose Up

-- A set of settings that an owner has made, under an id of their choice. What is in data is as the API shows it.
CREATE TABLE assistants (
    owner      text        NOT NULL,
    id         text        NOT NULL,
    -- whether all owners may use it
    shared     boolean     NOT NULL,
    data       jsonb       NOT NULL,
    -- signs the requests of its HTTP tools
    secret     text        NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (owner, id)
);
CREATE INDEX assistants_shared ON assistants (id) WHERE shared;

-- The assistant that answers, '' for the server's settings, and the values of its variables.
ALTER TABLE threads ADD COLUMN assistant_id text NOT NULL DEFAULT '';
ALTER TABLE threads ADD COLUMN variables jsonb NOT NULL DEFAULT '{}';

ALTER TABLE calls ADD COLUMN assistant_id text NOT NULL DEFAULT '';
-- What the text model read in the call after its end.
ALTER TABLE calls ADD COLUMN extracted jsonb;
ALTER TABLE calls ADD COLUMN summary text NOT NULL DEFAULT '';
-- Whether it does: '' no, 'waiting' until the call has ended and it is extraction_at, 'running' in the process
-- extraction_by, 'done', 'failed' with an error.
ALTER TABLE calls ADD COLUMN extraction text NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN extraction_attempts bigint NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN extraction_by text NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN extraction_at timestamptz;
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
    row_number() OVER (PARTITION BY s.thread ORDER BY s.seq, s.place) AS position,
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

DROP VIEW call_summary;
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
        CAST(round(CAST(sum(cost_usd) AS numeric), 6) AS double precision) AS cost_usd,
        CAST(round(CAST(percentile_cont(0.5) WITHIN GROUP (ORDER BY answer_ms) AS numeric)) AS bigint) AS answer_p50_ms
    FROM responses
    GROUP BY thread_id, call_id
) AS r ON r.call_id = c.id AND r.thread_id = c.thread_id
WHERE t.owner <> ''
ORDER BY c.started_at, c.id;
