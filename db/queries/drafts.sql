-- SaveDraft saves a piece of text that was added to a message in progress. It changes
-- nothing for other messages.
-- name: SaveDraft :execrows
INSERT INTO drafts (message_id, start, text)
SELECT m.id, CAST(@start AS bigint), CAST(@text AS text) FROM messages AS m
JOIN threads AS t ON t.id = m.thread_id
WHERE m.id = @message_id AND m.thread_id = @thread_id AND t.owner = @owner AND m.status = 'in_progress'
ON CONFLICT (message_id, start) DO UPDATE SET text = excluded.text;

-- name: ListDrafts :many
SELECT * FROM drafts WHERE message_id = @message_id ORDER BY start;

-- name: DeleteDrafts :exec
DELETE FROM drafts WHERE message_id = @message_id;

-- EraseDrafts deletes the drafts of a thread, before its messages are erased.
-- name: EraseDrafts :execrows
DELETE FROM drafts WHERE message_id IN (
    SELECT m.id FROM messages AS m WHERE m.thread_id = @thread_id AND m.status = 'in_progress'
);

-- ForgetDrafts deletes drafts that were saved at the moment when their message was finished
-- or deleted by somebody else.
-- name: ForgetDrafts :exec
DELETE FROM drafts WHERE NOT EXISTS (
    SELECT 1 FROM messages AS m WHERE m.id = drafts.message_id AND m.status = 'in_progress'
);

-- ListGrowing lists the messages of a thread that are in progress, in order.
-- name: ListGrowing :many
SELECT m.* FROM messages AS m
JOIN threads AS t ON t.id = m.thread_id
WHERE m.thread_id = @thread_id AND t.owner = @owner AND m.status = 'in_progress'
ORDER BY m.seq;
