-- +goose Up

-- Who gave the title: '' nobody yet, 'local' its first words, 'model', 'user'.
ALTER TABLE threads ADD COLUMN title_by text NOT NULL DEFAULT '';
UPDATE threads SET title_by = 'user' WHERE title <> '';

-- A text turn that runs. There is one at most on a thread, of all instances.
CREATE TABLE turns (
    thread_id     text        NOT NULL PRIMARY KEY REFERENCES threads (id) ON DELETE CASCADE,
    id            text        NOT NULL,
    instance      text        NOT NULL,
    started_at    timestamptz NOT NULL,
    -- until when it counts as running, unless it is renewed
    lease_until   timestamptz NOT NULL,
    -- somebody on any instance wants it to stop
    stop_asked_at timestamptz
);
CREATE INDEX turns_by_instance ON turns (instance);

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

CREATE INDEX tool_calls_by_model_id ON tool_calls (thread_id, tool_call_id);

-- +goose Down
DROP INDEX tool_calls_by_model_id;
DROP TABLE text_sessions;
DROP TABLE turns;
ALTER TABLE threads DROP COLUMN title_by;
