-- +goose Up

DROP TRIGGER messages_index_delete;
DROP TRIGGER messages_index_add;
DROP TRIGGER messages_index_remove;
DROP TRIGGER messages_index_insert;
DROP TABLE message_index;
DROP TABLE message_numbers;

-- The words of a thread have numbers that follow each other, so that one thread can be
-- asked for a word, and the next one with the word be found, without reading all of them:
-- 4294967296 for each thread. Numbers never change.
CREATE TABLE thread_numbers (
    number    integer NOT NULL PRIMARY KEY,
    thread_id text    NOT NULL UNIQUE REFERENCES threads (id) ON DELETE CASCADE
);
CREATE TABLE message_numbers (
    number     integer NOT NULL PRIMARY KEY,
    message_id text    NOT NULL UNIQUE
);
-- Full-text search over what is finished: every three letters that follow each other
-- are in the index, so that parts of words are found, too. The index keeps no text
-- of its own. What is deleted from it is only noted there, which takes a hundredth of the
-- time of removing every letter; persistence counts it, and soon writes the index anew.
CREATE VIRTUAL TABLE message_index USING fts5 (words, content = '', columnsize = 0, tokenize = 'trigram');
CREATE TABLE message_index_deleted (
    amount bigint NOT NULL
);
INSERT INTO message_index_deleted (amount) VALUES (0);

INSERT INTO thread_numbers (thread_id) SELECT DISTINCT thread_id FROM messages WHERE status <> 'in_progress' AND search_text <> '';
INSERT INTO message_numbers (number, message_id)
SELECT (t.number << 32) + row_number() OVER (PARTITION BY m.thread_id ORDER BY m.seq), m.id
FROM messages AS m JOIN thread_numbers AS t ON t.thread_id = m.thread_id
WHERE m.status <> 'in_progress' AND m.search_text <> '';
INSERT INTO message_index (rowid, words)
SELECT n.number, m.search_text FROM message_numbers AS n JOIN messages AS m ON m.id = n.message_id ORDER BY n.number;

-- +goose StatementBegin
CREATE TRIGGER messages_index_insert AFTER INSERT ON messages WHEN new.status <> 'in_progress' AND new.search_text <> ''
BEGIN
    INSERT INTO thread_numbers (thread_id) VALUES (new.thread_id) ON CONFLICT (thread_id) DO NOTHING;
    INSERT INTO message_numbers (number, message_id)
    SELECT coalesce((
        SELECT max(n.number) FROM message_numbers AS n WHERE n.number BETWEEN t.number << 32 AND (t.number << 32) + 4294967295
    ), t.number << 32) + 1, new.id
    FROM thread_numbers AS t WHERE t.thread_id = new.thread_id;
    INSERT INTO message_index (rowid, words) SELECT number, new.search_text FROM message_numbers WHERE message_id = new.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER messages_index_update AFTER UPDATE OF status, search_text ON messages
WHEN new.search_text <> old.search_text OR (new.status = 'in_progress') <> (old.status = 'in_progress')
BEGIN
    INSERT INTO message_index (message_index, rowid, words)
    SELECT 'delete', number, old.search_text FROM message_numbers WHERE message_id = old.id AND old.status <> 'in_progress' AND old.search_text <> '';
    UPDATE message_index_deleted SET amount = amount + 1 WHERE old.status <> 'in_progress' AND old.search_text <> '';
    INSERT INTO thread_numbers (thread_id) SELECT new.thread_id WHERE new.status <> 'in_progress' AND new.search_text <> ''
    ON CONFLICT (thread_id) DO NOTHING;
    INSERT INTO message_numbers (number, message_id)
    SELECT coalesce((
        SELECT max(n.number) FROM message_numbers AS n WHERE n.number BETWEEN t.number << 32 AND (t.number << 32) + 4294967295
    ), t.number << 32) + 1, new.id
    FROM thread_numbers AS t WHERE t.thread_id = new.thread_id AND new.status <> 'in_progress' AND new.search_text <> ''
    ON CONFLICT (message_id) DO NOTHING;
    INSERT INTO message_index (rowid, words)
    SELECT number, new.search_text FROM message_numbers WHERE message_id = new.id AND new.status <> 'in_progress' AND new.search_text <> '';
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER messages_index_delete AFTER DELETE ON messages
BEGIN
    INSERT INTO message_index (message_index, rowid, words)
    SELECT 'delete', number, old.search_text FROM message_numbers WHERE message_id = old.id AND old.status <> 'in_progress' AND old.search_text <> '';
    UPDATE message_index_deleted SET amount = amount + 1 WHERE old.status <> 'in_progress' AND old.search_text <> '';
    DELETE FROM message_numbers WHERE message_id = old.id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER messages_index_delete;
DROP TRIGGER messages_index_update;
DROP TRIGGER messages_index_insert;
DROP TABLE message_index_deleted;
DROP TABLE message_index;
DROP TABLE message_numbers;
DROP TABLE thread_numbers;

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
