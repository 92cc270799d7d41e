-- +goose Up

-- A process that serves the database. Its id, which is new at every start, is in
-- all that it writes. It counts its beats; when they stop somebody else ends it
-- here and closes what it left open, and from then on it may write no more.
CREATE TABLE instances (
    id         text        NOT NULL PRIMARY KEY,
    -- the machine and the process, for others on the same machine; empty where
    -- that cannot be said
    host       text        NOT NULL,
    process    text        NOT NULL,
    beats      bigint      NOT NULL,
    beat_at    datetime NOT NULL,
    started_at datetime NOT NULL,
    ended_at   datetime
);

CREATE INDEX messages_open_by_thread ON messages (thread_id) WHERE status = 'in_progress';
CREATE INDEX tool_calls_open_by_thread ON tool_calls (thread_id) WHERE status = 'running';

-- +goose Down
DROP INDEX tool_calls_open_by_thread;
DROP INDEX messages_open_by_thread;
DROP TABLE instances;
