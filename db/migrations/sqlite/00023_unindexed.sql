-- +goose Up

DROP TRIGGER messages_index_delete;
DROP TRIGGER messages_index_update;
DROP TRIGGER messages_index_insert;

-- Finished messages that are not in the search index yet. Each transaction that adds to the
-- index writes a segment, which is merged with others later: many messages in one
-- transaction take little more than half as long as each in its own. Until then a
-- search reads these messages one by one, as PostgreSQL does with its index's pending list.
CREATE TABLE unindexed_messages (
    thread_id  text NOT NULL,
    message_id text NOT NULL,
    PRIMARY KEY (thread_id, message_id)
) WITHOUT ROWID;

-- From now on a message has a number exactly while it is in the index.
DELETE FROM message_numbers WHERE message_id IN (SELECT id FROM messages WHERE status = 'in_progress' OR search_text = '');

-- +goose StatementBegin
CREATE TRIGGER messages_index_insert AFTER INSERT ON messages WHEN new.status <> 'in_progress' AND new.search_text <> ''
BEGIN
    INSERT INTO unindexed_messages (thread_id, message_id) VALUES (new.thread_id, new.id);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER messages_index_finish AFTER UPDATE OF status, search_text ON messages
WHEN old.status = 'in_progress' AND new.status <> 'in_progress' AND new.search_text <> ''
BEGIN
    INSERT INTO unindexed_messages (thread_id, message_id) VALUES (new.thread_id, new.id);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER messages_index_update AFTER UPDATE OF status, search_text ON messages
WHEN old.status <> 'in_progress' AND (new.status = 'in_progress' OR new.search_text <> old.search_text)
BEGIN
    UPDATE message_index_deleted SET amount = amount + 1 WHERE EXISTS (SELECT 1 FROM message_numbers WHERE message_id = old.id);
    INSERT INTO message_index (message_index, rowid, words)
    SELECT 'delete', number, old.search_text FROM message_numbers WHERE message_id = old.id;
    DELETE FROM message_numbers WHERE message_id = old.id;
    DELETE FROM unindexed_messages WHERE thread_id = old.thread_id AND message_id = old.id;
    INSERT INTO unindexed_messages (thread_id, message_id)
    SELECT new.thread_id, new.id WHERE new.status <> 'in_progress' AND new.search_text <> '';
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER messages_index_delete AFTER DELETE ON messages WHEN old.status <> 'in_progress' AND old.search_text <> ''
BEGIN
    UPDATE message_index_deleted SET amount = amount + 1 WHERE EXISTS (SELECT 1 FROM message_numbers WHERE message_id = old.id);
    INSERT INTO message_index (message_index, rowid, words)
    SELECT 'delete', number, old.search_text FROM message_numbers WHERE message_id = old.id;
    DELETE FROM message_numbers WHERE message_id = old.id;
    DELETE FROM unindexed_messages WHERE thread_id = old.thread_id AND message_id = old.id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER messages_index_delete;
DROP TRIGGER messages_index_update;
DROP TRIGGER messages_index_finish;
DROP TRIGGER messages_index_insert;

INSERT INTO thread_numbers (thread_id) SELECT DISTINCT thread_id FROM unindexed_messages WHERE true ON CONFLICT (thread_id) DO NOTHING;
INSERT INTO message_numbers (number, message_id)
SELECT coalesce((
    SELECT max(n.number) FROM message_numbers AS n WHERE n.number BETWEEN t.number << 32 AND (t.number << 32) + 4294967295
), t.number << 32) + row_number() OVER (PARTITION BY m.thread_id ORDER BY m.seq), m.id
FROM unindexed_messages AS u
JOIN thread_numbers AS t ON t.thread_id = u.thread_id
JOIN messages AS m ON m.id = u.message_id;
INSERT INTO message_index (rowid, words)
SELECT n.number, m.search_text FROM unindexed_messages AS u
JOIN message_numbers AS n ON n.message_id = u.message_id
JOIN messages AS m ON m.id = u.message_id
ORDER BY n.number;
DROP TABLE unindexed_messages;

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
