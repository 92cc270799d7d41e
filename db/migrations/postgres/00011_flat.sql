-- +goose Up

-- No message of the present context has a smaller number: so that whoever wants the
-- last messages since a reset does not read those before it.
ALTER TABLE threads ADD COLUMN reset_seq bigint NOT NULL DEFAULT 0;
UPDATE threads SET reset_seq = coalesce((
    SELECT min(m.seq) FROM messages AS m WHERE m.thread_id = threads.id AND m.context = threads.context
), next_seq) WHERE context > 0;

-- What is open of a thread, in its order.
DROP INDEX messages_open_by_thread;
CREATE INDEX messages_open_by_thread ON messages (thread_id, seq) WHERE status = 'in_progress';

-- A thread that is being erased belongs to nobody, and is erased piece by piece.
CREATE INDEX threads_erased ON threads (id) WHERE owner = '';

-- +goose Down
DROP INDEX threads_erased;
DROP INDEX messages_open_by_thread;
CREATE INDEX messages_open_by_thread ON messages (thread_id) WHERE status = 'in_progress';
ALTER TABLE threads DROP COLUMN reset_seq;
