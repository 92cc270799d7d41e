-- +goose Up

-- A thread that anybody may read who knows the token, until the row is deleted.
CREATE TABLE shares (
    thread_id  text        NOT NULL PRIMARY KEY REFERENCES threads (id) ON DELETE CASCADE,
    token      text        NOT NULL UNIQUE,
    created_at timestamptz NOT NULL
);
