-- +goose Up

-- A thread is a saved conversation.
CREATE TABLE threads (
    id         text        NOT NULL PRIMARY KEY,
    owner      text        NOT NULL,
    title      text        NOT NULL,
    -- the next number for a message or for a change of a message
    next_seq   bigint      NOT NULL,
    -- grows with every reset; later turns see only messages of the same number
    context    bigint      NOT NULL,
    created_at datetime    NOT NULL,
    -- when the last message was created
    updated_at datetime    NOT NULL,
    -- the title in lower case, for searching
    search_title text      NOT NULL
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
    instance         text        NOT NULL
);
CREATE INDEX calls_by_thread ON calls (thread_id, started_at);
-- one live call per thread
CREATE UNIQUE INDEX calls_live ON calls (thread_id) WHERE ended_at IS NULL;
CREATE INDEX calls_open ON calls (instance) WHERE ended_at IS NULL;

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
CREATE INDEX tool_calls_open ON tool_calls (instance) WHERE status = 'running';

-- A response is one answer of an upstream, with what it took.
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
    finished_at         datetime
);
CREATE INDEX responses_by_thread ON responses (thread_id, created_at);
CREATE INDEX responses_by_call ON responses (call_id) WHERE call_id <> '';
CREATE INDEX responses_open ON responses (instance) WHERE status = 'in_progress';

-- A queued message waits for its turn on a busy thread.
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
    sent_at         datetime
);
CREATE INDEX queued_messages_by_position ON queued_messages (thread_id, position);
CREATE UNIQUE INDEX queued_messages_once ON queued_messages (thread_id, idempotency_key);

-- +goose Down
DROP TABLE queued_messages;
DROP TABLE responses;
DROP TABLE tool_calls;
DROP TABLE calls;
DROP TABLE messages;
DROP TABLE threads;
