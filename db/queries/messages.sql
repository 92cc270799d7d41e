-- InsertMessage looks the thread up together with its owner: if it belongs to another
-- owner the value is NULL, which the column refuses. If the id is taken it adds no row,
-- because an error would end PostgreSQL's transaction.
-- name: InsertMessage :execrows
INSERT INTO messages (
    id, thread_id, seq, revision, context, role, source, status, text, search_text, parts, metadata,
    call_id, item_id, model, voice, heard_text, audio_end_ms, instance, created_at, updated_at
) VALUES (
    @id, (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner),
    @seq, @seq, @context, @role, @source, @status, @text, @search_text, @parts, @metadata,
    @call_id, @item_id, @model, @voice, @heard_text, @audio_end_ms, @instance, @created_at, @updated_at
)
ON CONFLICT (id) DO NOTHING;

-- UpdateMessage returns some of what it leaves unchanged. What a later call has said, too, is that one's.
-- name: UpdateMessage :one
UPDATE messages SET
    revision = @revision, source = @source, status = @status, text = @text, search_text = @search_text,
    parts = @parts, metadata = @metadata, call_id = @call_id, item_id = @item_id, model = @model, voice = @voice,
    heard_text = @heard_text, audio_end_ms = @audio_end_ms, instance = @instance, updated_at = @updated_at
WHERE messages.id = @id
    AND messages.thread_id = (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner)
    AND NOT EXISTS (
        SELECT 1 FROM calls AS c JOIN calls AS own ON own.thread_id = c.thread_id
        WHERE c.id = messages.call_id AND own.id = @call_id AND c.place > own.place
    )
RETURNING messages.seq, messages.role, messages.created_at;

-- name: GetMessage :one
SELECT m.* FROM messages AS m
JOIN threads AS t ON t.id = m.thread_id
WHERE m.id = @id AND m.thread_id = @thread_id AND t.owner = @owner;

-- MessageSeq returns a message's number without reading its text.
-- name: MessageSeq :one
SELECT m.seq FROM messages AS m
JOIN threads AS t ON t.id = m.thread_id
WHERE m.id = @id AND m.thread_id = @thread_id AND t.owner = @owner;

-- name: ListMessages :many
SELECT m.* FROM messages AS m
JOIN threads AS t ON t.id = m.thread_id
WHERE m.thread_id = @thread_id AND t.owner = @owner AND m.seq > @after_seq
ORDER BY m.seq
LIMIT CAST(@max_rows AS bigint);

-- ListCallMessages lists what was said in a call.
-- name: ListCallMessages :many
SELECT m.* FROM messages AS m
JOIN threads AS t ON t.id = m.thread_id
WHERE m.thread_id = @thread_id AND t.owner = @owner AND m.call_id = @call_id AND m.seq > @after_seq
ORDER BY m.seq
LIMIT CAST(@max_rows AS bigint);

-- name: ListChanges :many
SELECT m.* FROM messages AS m
JOIN threads AS t ON t.id = m.thread_id
WHERE m.thread_id = @thread_id AND t.owner = @owner AND m.revision > @after_revision
ORDER BY m.revision
LIMIT CAST(@max_rows AS bigint);

-- ListReplay lists the newest first. The context and the first number come from
-- subqueries that run once, so the index returns the rows in order, and those before a
-- reset are not read.
-- name: ListReplay :many
SELECT m.* FROM messages AS m
WHERE m.thread_id = @thread_id AND m.status <> 'in_progress'
    AND m.context = (SELECT t.context FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner)
    AND m.seq >= (SELECT t.reset_seq FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner)
ORDER BY m.seq DESC
LIMIT CAST(@max_rows AS bigint);

-- ListInstructions lists the system messages before a number, the newest first, as
-- ListReplay does.
-- name: ListInstructions :many
SELECT m.* FROM messages AS m
WHERE m.thread_id = @thread_id AND m.role = 'system' AND m.seq < @before_seq
    AND m.context = (SELECT t.context FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner)
    AND m.seq >= (SELECT t.reset_seq FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner)
ORDER BY m.seq DESC
LIMIT CAST(@max_rows AS bigint);

-- FirstMessageAfter passes over what calls said that began before the call.
-- name: FirstMessageAfter :one
SELECT m.seq, m.context FROM messages AS m
JOIN threads AS t ON t.id = m.thread_id
WHERE m.thread_id = @thread_id AND t.owner = @owner AND m.seq > @after_seq
    AND NOT EXISTS (
        SELECT 1 FROM calls AS c JOIN calls AS own ON own.thread_id = c.thread_id
        WHERE c.id = m.call_id AND own.id = @call_id AND c.place < own.place
    )
ORDER BY m.seq
LIMIT 1;

-- FirstOfLaterCall returns the first message that came after the call: of the calls that began after it, or typed after
-- it had ended. There is none as a rule: late are the words of processes that died, which others have closed.
-- name: FirstOfLaterCall :one
SELECT m.seq, m.context FROM messages AS m
JOIN threads AS t ON t.id = m.thread_id
JOIN calls AS own ON own.thread_id = m.thread_id
WHERE m.thread_id = @thread_id AND t.owner = @owner AND own.id = @call_id
    AND (
        own.ended_at IS NOT NULL
        OR EXISTS (SELECT 1 FROM calls AS c WHERE c.thread_id = own.thread_id AND c.place > own.place)
    )
    AND (
        (m.call_id = '' AND m.created_at > own.ended_at)
        OR EXISTS (SELECT 1 FROM calls AS c WHERE c.id = m.call_id AND c.thread_id = own.thread_id AND c.place > own.place)
    )
ORDER BY m.seq
LIMIT 1;

-- name: LastMessage :one
SELECT m.seq FROM messages AS m
JOIN threads AS t ON t.id = m.thread_id
WHERE m.thread_id = @thread_id AND t.owner = @owner
ORDER BY m.seq DESC
LIMIT 1;

-- ShiftMessages renumbers the messages from a number on, in the same order.
-- name: ShiftMessages :many
UPDATE messages SET seq = seq + CAST(@distance AS bigint), revision = seq + CAST(@distance AS bigint)
WHERE messages.seq >= @from_seq
    AND messages.thread_id = (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner)
RETURNING *;
