-- +goose Up

-- How many bytes the parts of a thread's messages take. It grows and shrinks with every
-- write to a message. Erasing messages leaves it alone: the whole thread goes.
ALTER TABLE threads ADD COLUMN stored bigint NOT NULL DEFAULT 0;
UPDATE threads SET stored = s.stored
FROM (SELECT thread_id, sum(octet_length(CAST(parts AS text))) AS stored FROM messages GROUP BY thread_id) AS s
WHERE s.thread_id = threads.id;

-- +goose StatementBegin
CREATE FUNCTION add_stored() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    grown bigint := octet_length(CAST(new.parts AS text));
BEGIN
    IF tg_op = 'UPDATE' THEN
        grown := grown - octet_length(CAST(old.parts AS text));
    END IF;
    UPDATE threads SET stored = stored + grown WHERE id = new.thread_id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER messages_stored AFTER INSERT OR UPDATE OF parts ON messages FOR EACH ROW EXECUTE FUNCTION add_stored();

-- +goose Down
DROP TRIGGER messages_stored ON messages;
DROP FUNCTION add_stored;
ALTER TABLE threads DROP COLUMN stored;
