-- +goose Up

-- The tables of version 0.1.0. The number is that of the last of the unreleased migrations that this one
-- replaces: a database that had them all counts as having it.

-- A thread is a saved conversation. One without an owner is deleted, and erased piece by piece; people
-- do not see it in the views.
CREATE TABLE threads (
    id           text        NOT NULL PRIMARY KEY,
    owner        text        NOT NULL,
    title        text        NOT NULL,
    -- the next number for a message or for a change of a message
    next_seq     bigint      NOT NULL,
    -- grows with every reset; later turns see only messages of the same number
    context      bigint      NOT NULL,
    created_at   timestamptz NOT NULL,
    -- when the last message was created
    updated_at   timestamptz NOT NULL,
    -- the title in lower case, for searching
    search_title text        NOT NULL,
    -- who gave the title: '' nobody yet, 'local' its first words, 'model', 'user'
    title_by     text        NOT NULL DEFAULT '',
    -- no message of the present context has a smaller number: so that whoever wants the last messages
    -- since a reset does not read those before it
    reset_seq    bigint      NOT NULL DEFAULT 0,
    -- how many bytes the parts of its messages take; grows and shrinks with every write to a message.
    -- Erasing messages leaves it alone: the whole thread goes.
    stored       bigint      NOT NULL DEFAULT 0
);
CREATE INDEX threads_by_activity ON threads (owner, updated_at, id);

-- A message is one entry of a thread. parts and metadata hold the form that
-- clients read; the other columns are for people, views and queries, and
-- metadata holds only what has no column of its own.
CREATE TABLE messages (
    id           text        NOT NULL PRIMARY KEY,
    thread_id    text        NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    -- the place in the thread
    seq          bigint      NOT NULL,
    -- the number of the last change, from the same counter
    revision     bigint      NOT NULL,
    context      bigint      NOT NULL,
    role         text        NOT NULL,
    source       text        NOT NULL,
    status       text        NOT NULL,
    text         text        NOT NULL,
    parts        jsonb       NOT NULL,
    metadata     jsonb       NOT NULL,
    call_id      text        NOT NULL,
    item_id      text        NOT NULL,
    model        text        NOT NULL,
    voice        text        NOT NULL,
    -- for an interrupted voice answer: what was played of it
    heard_text   text,
    audio_end_ms bigint,
    -- the process that wrote it last
    instance     text        NOT NULL,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    -- the text in lower case, for searching
    search_text  text        NOT NULL
);
CREATE UNIQUE INDEX messages_by_seq ON messages (thread_id, seq);
CREATE UNIQUE INDEX messages_by_revision ON messages (thread_id, revision);
CREATE INDEX messages_open ON messages (instance) WHERE status = 'in_progress';
-- what is open of a thread, in its order
CREATE INDEX messages_open_by_thread ON messages (thread_id, seq) WHERE status = 'in_progress';
-- the instructions, which stay in the model's context however long the thread is
CREATE INDEX messages_instructions ON messages (thread_id, seq) WHERE role = 'system';

-- Drafts are what was added to messages that are still growing, piece by piece. When
-- a message is written as a whole, at the latest when it is finished, they go.
CREATE TABLE drafts (
    message_id text   NOT NULL,
    -- bytes of the message's last text before this piece
    start      bigint NOT NULL,
    text       text   NOT NULL,
    PRIMARY KEY (message_id, start)
);

-- An image that a message of the thread may show.
CREATE TABLE images (
    id         text        NOT NULL PRIMARY KEY,
    thread_id  text        NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    media_type text        NOT NULL,
    width      bigint      NOT NULL,
    height     bigint      NOT NULL,
    -- of data, in bytes
    size       bigint      NOT NULL,
    data       bytea       NOT NULL,
    created_at timestamptz NOT NULL
);
CREATE INDEX images_by_thread ON images (thread_id, size);

-- A call is one live voice connection on a thread.
CREATE TABLE calls (
    id               text        NOT NULL PRIMARY KEY,
    thread_id        text        NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    upstream         text        NOT NULL,
    upstream_call_id text        NOT NULL,
    model            text        NOT NULL,
    voice            text        NOT NULL,
    started_at       timestamptz NOT NULL,
    -- when the caller's audio was let through
    ready_at         timestamptz,
    ended_at         timestamptz,
    end_reason       text        NOT NULL,
    turns            bigint      NOT NULL,
    interruptions    bigint      NOT NULL,
    -- how many earlier messages the upstream was told
    replayed         bigint      NOT NULL,
    instance         text        NOT NULL,
    -- Which call of its thread this is. What a call said may be saved long after its end, from the spool of a
    -- process that was cut off, and still belongs before what later calls said. The oldest calls have 0.
    place            bigint      NOT NULL DEFAULT 0
);
CREATE INDEX calls_by_thread ON calls (thread_id, started_at);
-- one live call per thread
CREATE UNIQUE INDEX calls_live ON calls (thread_id) WHERE ended_at IS NULL;
CREATE INDEX calls_open ON calls (instance) WHERE ended_at IS NULL;

-- An upstream leg is one session that a voice call has at the upstream: a call
-- whose session is renewed has several, one after the other. A row outlives its
-- thread until the session is known to be hung up, so it refers to no other table.
CREATE TABLE upstream_legs (
    call_id     text        NOT NULL,
    -- 1 for the first session of the call, larger for each that follows
    generation  bigint      NOT NULL,
    thread_id   text        NOT NULL,
    -- the driver's name, and its id of the session
    upstream    text        NOT NULL,
    upstream_id text        NOT NULL,
    instance    text        NOT NULL,
    started_at  timestamptz NOT NULL,
    ended_at    timestamptz,
    reason      text        NOT NULL,
    -- when the upstream said that the session is over
    hung_up_at  timestamptz,
    -- how often somebody who was not the call has tried to hang it up, and when
    -- that may be tried again
    attempts    bigint      NOT NULL,
    next_try_at timestamptz,
    PRIMARY KEY (call_id, generation)
);
CREATE INDEX upstream_legs_open ON upstream_legs (upstream) WHERE hung_up_at IS NULL;
CREATE INDEX upstream_legs_by_thread ON upstream_legs (thread_id);

-- A tool call is one function call of the model, whoever ran it.
CREATE TABLE tool_calls (
    id           text        NOT NULL PRIMARY KEY,
    thread_id    text        NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    message_id   text        NOT NULL,
    -- the voice call; empty in a text turn
    call_id      text        NOT NULL,
    -- the model's id
    tool_call_id text        NOT NULL,
    name         text        NOT NULL,
    executor     text        NOT NULL,
    -- the MCP server, else empty
    server       text        NOT NULL,
    status       text        NOT NULL,
    -- as the model wrote it, malformed or not
    input        text        NOT NULL,
    output       text        NOT NULL,
    error        text        NOT NULL,
    instance     text        NOT NULL,
    started_at   timestamptz NOT NULL,
    finished_at  timestamptz
);
CREATE INDEX tool_calls_by_thread ON tool_calls (thread_id, started_at);
CREATE INDEX tool_calls_by_model_id ON tool_calls (thread_id, tool_call_id);
CREATE INDEX tool_calls_open ON tool_calls (instance) WHERE status = 'running';
CREATE INDEX tool_calls_open_by_thread ON tool_calls (thread_id) WHERE status = 'running';

-- An approval is one question to the user whether a tool may run, and what came
-- of it.
CREATE TABLE approvals (
    -- that of the tool call's record
    id           text        NOT NULL PRIMARY KEY REFERENCES tool_calls (id) ON DELETE CASCADE,
    thread_id    text        NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    -- the model's id of the call
    tool_call_id text        NOT NULL,
    -- whoever answers has to know it
    nonce        text        NOT NULL,
    -- '' while it is open, then approved, denied, timeout, interrupted or
    -- process_ended
    outcome      text        NOT NULL,
    -- the owner who said yes or no, else empty
    answered_by  text        NOT NULL,
    instance     text        NOT NULL,
    asked_at     timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    answered_at  timestamptz
);
CREATE INDEX approvals_by_thread ON approvals (thread_id, outcome);

-- A tool pin is the definition of an MCP server's tool as it was first seen, or last
-- accepted: a server that changes it later is not simply believed.
CREATE TABLE tool_pins (
    server     text        NOT NULL,
    tool       text        NOT NULL, -- its name on the server
    -- JSON: description and parameters
    definition text        NOT NULL,
    pinned_at  timestamptz NOT NULL,
    PRIMARY KEY (server, tool)
);

-- A response is one use of a model, with what it took.
CREATE TABLE responses (
    id                  text        NOT NULL PRIMARY KEY,
    thread_id           text        NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    -- the voice call; empty in a text turn
    call_id             text        NOT NULL,
    message_id          text        NOT NULL,
    upstream_id         text        NOT NULL,
    model               text        NOT NULL,
    status              text        NOT NULL,
    status_reason       text        NOT NULL,
    input_tokens        bigint      NOT NULL,
    output_tokens       bigint      NOT NULL,
    cached_tokens       bigint      NOT NULL,
    input_audio_tokens  bigint      NOT NULL,
    output_audio_tokens bigint      NOT NULL,
    -- the upstream's usage object as it came
    raw_usage           jsonb,
    cost_usd            double precision,
    -- from the end of the user's speech or the typed text to the first audio
    answer_ms           bigint,
    -- the same to the first text
    first_token_ms      bigint,
    instance            text        NOT NULL,
    created_at          timestamptz NOT NULL,
    finished_at         timestamptz,
    -- what the model was used for: response (an answer), transcription, title
    kind                text        NOT NULL DEFAULT 'response'
);
CREATE INDEX responses_by_thread ON responses (thread_id, created_at);
CREATE INDEX responses_by_call ON responses (call_id) WHERE call_id <> '';
CREATE INDEX responses_open ON responses (instance) WHERE status = 'in_progress';

-- A text turn. One at most runs on a thread, of all instances. When it has ended its row
-- stays, so that the next one can keep a distance.
CREATE TABLE turns (
    thread_id     text        NOT NULL PRIMARY KEY REFERENCES threads (id) ON DELETE CASCADE,
    id            text        NOT NULL,
    instance      text        NOT NULL,
    started_at    timestamptz NOT NULL,
    -- until when it counts as running, unless it is renewed
    lease_until   timestamptz NOT NULL,
    -- somebody on any instance wants it to stop
    stop_asked_at timestamptz,
    ended_at      timestamptz
);
-- the running turns, which every process looks for all the time
CREATE INDEX turns_open ON turns (instance) WHERE ended_at IS NULL;

-- How a thread is answered by text, where it differs from the settings.
CREATE TABLE text_sessions (
    thread_id  text        NOT NULL PRIMARY KEY REFERENCES threads (id) ON DELETE CASCADE,
    provider   text        NOT NULL,
    model      text        NOT NULL,
    -- JSON as the caller wrote it: models read the order of the keys
    tools      text        NOT NULL,
    defaults   text        NOT NULL,
    created_at timestamptz NOT NULL
);

-- A queued message waits for its turn on a busy thread. state is queued, sending, answering (it is a
-- message of the thread, and its turn has not ended) or sent.
CREATE TABLE queued_messages (
    id              text        NOT NULL PRIMARY KEY,
    thread_id       text        NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    state           text        NOT NULL,
    position        bigint      NOT NULL,
    message         text        NOT NULL,
    title           text        NOT NULL,
    image_ids       jsonb       NOT NULL,
    client_id       text        NOT NULL,
    idempotency_key text,
    attempts        bigint      NOT NULL,
    lease_until     timestamptz,
    error           text        NOT NULL,
    scheduled_at    timestamptz,
    queued_at       timestamptz NOT NULL,
    sent_at         timestamptz,
    -- that of the message of the thread that it becomes; given when it is queued, so it becomes one once
    message_id      text        NOT NULL DEFAULT '',
    -- the process that sends it
    instance        text        NOT NULL DEFAULT '',
    -- until when a failure keeps it, and the queue behind it, waiting
    not_before      timestamptz
);
CREATE INDEX queued_messages_by_position ON queued_messages (thread_id, position);
CREATE UNIQUE INDEX queued_messages_once ON queued_messages (thread_id, idempotency_key);
CREATE INDEX queued_messages_waiting ON queued_messages (thread_id) WHERE state <> 'sent';

-- A queue that stands still until somebody lets it go on.
CREATE TABLE queue_pauses (
    thread_id text        NOT NULL PRIMARY KEY REFERENCES threads (id) ON DELETE CASCADE,
    -- a word for programs, and words for people
    reason    text        NOT NULL,
    message   text        NOT NULL,
    paused_at timestamptz NOT NULL
);

-- A process that serves the database. Its id, which is new at every start, is in
-- all that it writes. It counts its beats; when they stop somebody else ends it
-- here and closes what it left open, and from then on it may write no more.
CREATE TABLE instances (
    id          text        NOT NULL PRIMARY KEY,
    -- the machine and the process, for others on the same machine; empty where
    -- that cannot be said
    host        text        NOT NULL,
    process     text        NOT NULL,
    beats       bigint      NOT NULL,
    beat_at     timestamptz NOT NULL,
    started_at  timestamptz NOT NULL,
    ended_at    timestamptz,
    -- the shards of threads whose news it wants to hear, one bit each
    shards      bigint      NOT NULL DEFAULT 0,
    -- whether it reads notes from the table, because notifications do not arrive there
    reads_notes boolean     NOT NULL DEFAULT false
);

-- A command asks another instance to do something with a thread that it has. The
-- row is gone when whoever asked has the answer, or does not wait any more.
CREATE TABLE commands (
    id          text        NOT NULL PRIMARY KEY,
    -- who shall do it
    instance    text        NOT NULL,
    owner       text        NOT NULL,
    thread_id   text        NOT NULL,
    kind        text        NOT NULL,
    body        text        NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    taken_at    timestamptz,
    answered_at timestamptz,
    reply       text        NOT NULL,
    -- why it was not done; empty when it was
    error       text        NOT NULL
);
CREATE INDEX commands_open ON commands (instance) WHERE taken_at IS NULL;

-- What instances that share the database must know alike, by its name.
CREATE TABLE shared_secrets (
    name       text        NOT NULL PRIMARY KEY,
    value      text        NOT NULL,
    created_at timestamptz NOT NULL
);

-- An access token is a session of the page or a client secret. The id alone opens
-- nothing: whoever shows it signs it with a secret that is not in this table.
CREATE TABLE access_tokens (
    id         text        NOT NULL PRIMARY KEY,
    kind       text        NOT NULL, -- session, client_secret
    owner      text        NOT NULL,
    -- JSON, which the kind gives its form
    data       text        NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX access_tokens_by_owner ON access_tokens (owner, kind, created_at);
CREATE INDEX access_tokens_by_end ON access_tokens (expires_at);

-- How often somebody may do something, counted for all instances together.
CREATE TABLE rates (
    -- what is counted, and of whom
    name    text   NOT NULL PRIMARY KEY,
    -- when the whole allowance is free again, in microseconds since 1970
    full_at bigint NOT NULL
);

-- A note from one process to the others, where PostgreSQL's notifications do not arrive:
-- behind a pooler that gives every transaction another connection. Numbers become visible
-- in order. A note stays for a minute.
CREATE TABLE notes (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payload text        NOT NULL,
    sent_at timestamptz NOT NULL
);
CREATE INDEX notes_by_time ON notes (sent_at);

-- threads.stored
-- +goose StatementBegin
CREATE FUNCTION add_stored() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    grown bigint := octet_length(CAST(new.parts AS text));
BEGIN
    IF tg_op = 'UPDATE' THEN
        grown := grown - octet_length(CAST(old.parts AS text));
    END IF;
    UPDATE threads SET stored = stored + grown WHERE id = new.thread_id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER messages_stored AFTER INSERT OR UPDATE OF parts ON messages FOR EACH ROW EXECUTE FUNCTION add_stored();

-- Full-text search over what is finished: every three letters that follow each other
-- are in the index, so that parts of words are found, too. What was written lately waits in a list,
-- which every search reads: it is kept short, and whoever writes when it is full files it, which takes less long, too.
-- Where the extension may not be made, search works without the index.
-- +goose StatementBegin
DO $$
BEGIN
    CREATE EXTENSION IF NOT EXISTS pg_trgm;
    CREATE INDEX messages_by_words ON messages USING gin (search_text gin_trgm_ops) WITH (gin_pending_list_limit = 256) WHERE status <> 'in_progress';
EXCEPTION WHEN OTHERS THEN
    RAISE NOTICE 'search has no index: %', SQLERRM;
END
$$;
-- +goose StatementEnd

-- migrate:down: sqlc reads no further, because it does not understand the views; goose does.

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
WHERE t.owner <> ''
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
WHERE t.owner <> ''
ORDER BY c.started_at, c.id;
