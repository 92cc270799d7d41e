-- +goose Up

-- A note from one process to the others, where PostgreSQL's notifications do not arrive:
-- behind a pooler that gives every transaction another connection. Numbers become visible
-- in order. A note stays for a minute.
CREATE TABLE notes (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payload text        NOT NULL,
    sent_at timestamptz NOT NULL
);
CREATE INDEX notes_by_time ON notes (sent_at);

-- +goose Down
DROP TABLE notes;
