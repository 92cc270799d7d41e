-- +goose Up

-- The instructions of a thread, which stay in the model's context however long the thread is.
CREATE INDEX messages_instructions ON messages (thread_id, seq) WHERE role = 'system';

-- +goose Down
DROP INDEX messages_instructions;
