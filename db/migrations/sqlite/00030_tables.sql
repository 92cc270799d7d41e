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
    created_at   datetime    NOT NULL,
    -- when the last message was created
    updated_at   datetime    NOT NULL,
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
    parts        json        NOT NULL,
    metadata     json        NOT NULL,
    call_id      text        NOT NULL,
    item_id      text        NOT NULL,
    model        text        NOT NULL,
    voice        text        NOT NULL,
    -- for an interrupted voice answer: what was played of it
    heard_text   text,
    audio_end_ms bigint,
    -- the process that wrote it last
    instance     text        NOT NULL,
    created_at   datetime    NOT NULL,
    updated_at   datetime    NOT NULL,
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
) WITHOUT ROWID;

-- An image that a message of the thread may show.
CREATE TABLE images (
    id         text        NOT NULL PRIMARY KEY,
    thread_id  text        NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    media_type text        NOT NULL,
    width      bigint      NOT NULL,
    height     bigint      NOT NULL,
    -- of data, in bytes
    size       bigint      NOT NULL,
    data       blob        NOT NULL,
    created_at datetime    NOT NULL
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
    started_at       datetime    NOT NULL,
    -- when the caller's audio was let through
    ready_at         datetime,
    ended_at         datetime,
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
    started_at  datetime    NOT NULL,
    ended_at    datetime,
    reason      text        NOT NULL,
    -- when the upstream said that the session is over
    hung_up_at  datetime,
    -- how often somebody who was not the call has tried to hang it up, and when
    -- that may be tried again
    attempts    bigint      NOT NULL,
    next_try_at datetime,
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
    started_at   datetime    NOT NULL,
    finished_at  datetime
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
    asked_at     datetime    NOT NULL,
    expires_at   datetime    NOT NULL,
    answered_at  datetime
);
CREATE INDEX approvals_by_thread ON approvals (thread_id, outcome);

-- A tool pin is the definition of an MCP server's tool as it was first seen, or last
-- accepted: a server that changes it later is not simply believed.
CREATE TABLE tool_pins (
    server     text        NOT NULL,
    tool       text        NOT NULL, -- its name on the server
    -- JSON: description and parameters
    definition text        NOT NULL,
    pinned_at  datetime    NOT NULL,
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
    raw_usage           json,
    cost_usd            real,
    -- from the end of the user's speech or the typed text to the first audio
    answer_ms           bigint,
    -- the same to the first text
    first_token_ms      bigint,
    instance            text        NOT NULL,
    created_at          datetime    NOT NULL,
    finished_at         datetime,
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
    started_at    datetime    NOT NULL,
    -- until when it counts as running, unless it is renewed
    lease_until   datetime    NOT NULL,
    -- somebody on any instance wants it to stop
    stop_asked_at datetime,
    ended_at      datetime
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
    created_at datetime    NOT NULL
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
    image_ids       json        NOT NULL,
    client_id       text        NOT NULL,
    idempotency_key text,
    attempts        bigint      NOT NULL,
    lease_until     datetime,
    error           text        NOT NULL,
    scheduled_at    datetime,
    queued_at       datetime    NOT NULL,
    sent_at         datetime,
    -- that of the message of the thread that it becomes; given when it is queued, so it becomes one once
    message_id      text        NOT NULL DEFAULT '',
    -- the process that sends it
    instance        text        NOT NULL DEFAULT '',
    -- until when a failure keeps it, and the queue behind it, waiting
    not_before      datetime
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
    paused_at datetime    NOT NULL
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
    beat_at     datetime    NOT NULL,
    started_at  datetime    NOT NULL,
    ended_at    datetime,
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
    created_at  datetime    NOT NULL,
    expires_at  datetime    NOT NULL,
    taken_at    datetime,
    answered_at datetime,
    reply       text        NOT NULL,
    -- why it was not done; empty when it was
    error       text        NOT NULL
);
CREATE INDEX commands_open ON commands (instance) WHERE taken_at IS NULL;

-- What instances that share the database must know alike, by its name.
CREATE TABLE shared_secrets (
    name       text        NOT NULL PRIMARY KEY,
    value      text        NOT NULL,
    created_at datetime    NOT NULL
);

-- An access token is a session of the page or a client secret. The id alone opens
-- nothing: whoever shows it signs it with a secret that is not in this table.
CREATE TABLE access_tokens (
    id         text        NOT NULL PRIMARY KEY,
    kind       text        NOT NULL, -- session, client_secret
    owner      text        NOT NULL,
    -- JSON, which the kind gives its form
    data       text        NOT NULL,
    created_at datetime    NOT NULL,
    expires_at datetime    NOT NULL
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

-- The words of a thread have numbers that follow each other, so that one thread can be
-- asked for a word, and the next one with the word be found, without reading all of them:
-- 4294967296 for each thread. Numbers never change, and a message has one exactly while it is in the index.
CREATE TABLE thread_numbers (
    number    integer NOT NULL PRIMARY KEY,
    thread_id text    NOT NULL UNIQUE REFERENCES threads (id) ON DELETE CASCADE
);
CREATE TABLE message_numbers (
    number     integer NOT NULL PRIMARY KEY,
    message_id text    NOT NULL UNIQUE
);
-- Full-text search over what is finished: every three letters that follow each other
-- are in the index, so that parts of words are found, too. The index keeps no text
-- of its own. What is deleted from it is only noted there, which takes a hundredth of the
-- time of removing every letter; persistence counts it, and soon writes the index anew.
CREATE VIRTUAL TABLE message_index USING fts5 (words, content = '', columnsize = 0, tokenize = 'trigram');
CREATE TABLE message_index_deleted (
    amount bigint NOT NULL
);
INSERT INTO message_index_deleted (amount) VALUES (0);

-- Finished messages that are not in the search index yet. Each transaction that adds to the
-- index writes a segment, which is merged with others later: many messages in one
-- transaction take little more than half as long as each in its own. Until then a
-- search reads these messages one by one, as PostgreSQL does with its index's pending list.
CREATE TABLE unindexed_messages (
    thread_id  text NOT NULL,
    message_id text NOT NULL,
    PRIMARY KEY (thread_id, message_id)
) WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER messages_index_insert AFTER INSERT ON messages WHEN new.status <> 'in_progress' AND new.search_text <> ''
BEGIN
    INSERT INTO unindexed_messages (thread_id, message_id) VALUES (new.thread_id, new.id);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER messages_index_finish AFTER UPDATE OF status, search_text ON messages
WHEN old.status = 'in_progress' AND new.status <> 'in_progress' AND new.search_text <> ''
BEGIN
    INSERT INTO unindexed_messages (thread_id, message_id) VALUES (new.thread_id, new.id);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER messages_index_update AFTER UPDATE OF status, search_text ON messages
WHEN old.status <> 'in_progress' AND (new.status = 'in_progress' OR new.search_text <> old.search_text)
BEGIN
    UPDATE message_index_deleted SET amount = amount + 1 WHERE EXISTS (SELECT 1 FROM message_numbers WHERE message_id = old.id);
    INSERT INTO message_index (message_index, rowid, words)
    SELECT 'delete', number, old.search_text FROM message_numbers WHERE message_id = old.id;
    DELETE FROM message_numbers WHERE message_id = old.id;
    DELETE FROM unindexed_messages WHERE thread_id = old.thread_id AND message_id = old.id;
    INSERT INTO unindexed_messages (thread_id, message_id)
    SELECT new.thread_id, new.id WHERE new.status <> 'in_progress' AND new.search_text <> '';
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER messages_index_delete AFTER DELETE ON messages WHEN old.status <> 'in_progress' AND old.search_text <> ''
BEGIN
    UPDATE message_index_deleted SET amount = amount + 1 WHERE EXISTS (SELECT 1 FROM message_numbers WHERE message_id = old.id);
    INSERT INTO message_index (message_index, rowid, words)
    SELECT 'delete', number, old.search_text FROM message_numbers WHERE message_id = old.id;
    DELETE FROM message_numbers WHERE message_id = old.id;
    DELETE FROM unindexed_messages WHERE thread_id = old.thread_id AND message_id = old.id;
END;
-- +goose StatementEnd

-- threads.stored
-- +goose StatementBegin
CREATE TRIGGER messages_stored_insert AFTER INSERT ON messages
BEGIN
    UPDATE threads SET stored = stored + length(CAST(new.parts AS blob)) WHERE id = new.thread_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER messages_stored_update AFTER UPDATE OF parts ON messages
BEGIN
    UPDATE threads SET stored = stored + length(CAST(new.parts AS blob)) - length(CAST(old.parts AS blob)) WHERE id = new.thread_id;
END;
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
WHERE t.owner <> ''
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
WHERE t.owner <> ''
ORDER BY c.started_at, c.id;
