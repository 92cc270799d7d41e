-- +goose Up

-- Full-text search over what is finished: every three letters that follow each other
-- are in the index, so that parts of words are found, too. The index keeps no text
-- of its own; it knows messages by a number that never changes.
CREATE TABLE message_numbers (
    number     integer NOT NULL PRIMARY KEY,
    message_id text    NOT NULL UNIQUE
);
CREATE VIRTUAL TABLE message_index USING fts5 (words, content = '', tokenize = 'trigram');
-- What is deleted leaves no trace in the index.
INSERT INTO message_index (message_index, rank) VALUES ('secure-delete', 1);

INSERT INTO message_numbers (message_id) SELECT id FROM messages WHERE status <> 'in_progress' AND search_text <> '';
INSERT INTO message_index (rowid, words)
SELECT n.number, m.search_text FROM message_numbers AS n JOIN messages AS m ON m.id = n.message_id;

-- +goose StatementBegin
CREATE TRIGGER messages_index_insert AFTER INSERT ON messages WHEN new.status <> 'in_progress' AND new.search_text <> ''
BEGIN
    INSERT INTO message_numbers (message_id) VALUES (new.id);
    INSERT INTO message_index (rowid, words) SELECT number, new.search_text FROM message_numbers WHERE message_id = new.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER messages_index_remove AFTER UPDATE OF status, search_text ON messages
WHEN old.status <> 'in_progress' AND old.search_text <> '' AND (new.status = 'in_progress' OR new.search_text <> old.search_text)
BEGIN
    INSERT INTO message_index (message_index, rowid, words)
    SELECT 'delete', number, old.search_text FROM message_numbers WHERE message_id = old.id;
    DELETE FROM message_numbers WHERE message_id = old.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER messages_index_add AFTER UPDATE OF status, search_text ON messages
WHEN new.status <> 'in_progress' AND new.search_text <> '' AND (old.status = 'in_progress' OR new.search_text <> old.search_text)
BEGIN
    INSERT INTO message_numbers (message_id) VALUES (new.id) ON CONFLICT DO NOTHING;
    INSERT INTO message_index (rowid, words) SELECT number, new.search_text FROM message_numbers WHERE message_id = new.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER messages_index_delete AFTER DELETE ON messages WHEN old.status <> 'in_progress' AND old.search_text <> ''
BEGIN
    INSERT INTO message_index (message_index, rowid, words)
    SELECT 'delete', number, old.search_text FROM message_numbers WHERE message_id = old.id;
    DELETE FROM message_numbers WHERE message_id = old.id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER messages_index_delete;
DROP TRIGGER messages_index_add;
DROP TRIGGER messages_index_remove;
DROP TRIGGER messages_index_insert;
DROP TABLE message_index;
DROP TABLE message_numbers;
