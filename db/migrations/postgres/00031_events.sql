-- +goose Up

-- An event is something that followers of a thread or, with an empty thread_id, of all threads of an owner learn, other
-- than its messages. It is removed after some minutes.
CREATE TABLE events (
    -- becomes visible only after all smaller ones
    id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- the process that wrote it, and its own number there
    mark      text        NOT NULL,
    owner     text        NOT NULL,
    thread_id text        NOT NULL,
    type      text        NOT NULL,
    data      text        NOT NULL,
    at        timestamptz NOT NULL
);
CREATE INDEX events_by_thread ON events (owner, thread_id, id);
CREATE INDEX events_by_time ON events (at);

DROP TABLE notes;
ALTER TABLE instances DROP COLUMN shards;
ALTER TABLE instances DROP COLUMN reads_notes;
-- which failure error is, for programs
ALTER TABLE commands ADD COLUMN code text NOT NULL DEFAULT '';
