-- +goose Up

-- What is kept of the sound of an ended call. The files are elsewhere, and are deleted before the row, which therefore
-- outlives its call.
CREATE TABLE recordings (
    call_id     text        NOT NULL PRIMARY KEY,
    started_at  timestamptz NOT NULL,
    duration_ms bigint      NOT NULL,
    bytes       bigint      NOT NULL
);
CREATE INDEX recordings_by_time ON recordings (started_at);
