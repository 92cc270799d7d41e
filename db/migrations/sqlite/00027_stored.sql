-- +goose Up

-- How many bytes the parts of a thread's messages take. It grows and shrinks with every
-- write to a message. Erasing messages leaves it alone: the whole thread goes.
ALTER TABLE threads ADD COLUMN stored bigint NOT NULL DEFAULT 0;
UPDATE threads SET stored = coalesce((SELECT sum(length(CAST(m.parts AS blob))) FROM messages AS m WHERE m.thread_id = threads.id), 0);

-- +goose StatementBegin
CREATE TRIGGER messages_stored_insert AFTER INSERT ON messages
BEGIN
    UPDATE threads SET stored = stored + length(CAST(new.parts AS blob)) WHERE id = new.thread_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER messages_stored_update AFTER UPDATE OF parts ON messages
BEGIN
    UPDATE threads SET stored = stored + length(CAST(new.parts AS blob)) - length(CAST(old.parts AS blob)) WHERE id = new.thread_id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER messages_stored_update;
DROP TRIGGER messages_stored_insert;
ALTER TABLE threads DROP COLUMN stored;
