-- +goose Up

-- The shards of threads whose news the instance wants to hear, one bit each.
ALTER TABLE instances ADD COLUMN shards bigint NOT NULL DEFAULT 0;

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
    created_at  datetime NOT NULL,
    expires_at  datetime NOT NULL,
    taken_at    datetime,
    answered_at datetime,
    reply       text        NOT NULL,
    -- why it was not done; empty when it was
    error       text        NOT NULL
);
CREATE INDEX commands_open ON commands (instance) WHERE taken_at IS NULL;

-- An image that a message of the thread may show.
CREATE TABLE images (
    id         text        NOT NULL PRIMARY KEY,
    thread_id  text        NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    media_type text        NOT NULL,
    width      bigint      NOT NULL,
    height     bigint      NOT NULL,
    -- of data, in bytes
    size       bigint      NOT NULL,
    data       blob NOT NULL,
    created_at datetime NOT NULL
);
CREATE INDEX images_by_thread ON images (thread_id, size);

-- +goose Down
DROP TABLE images;
DROP TABLE commands;
ALTER TABLE instances DROP COLUMN shards;
