-- CreateThread changes nothing if there is a thread with this id, whoever owns it.
-- name: CreateThread :execrows
INSERT INTO threads (id, owner, title, title_by, search_title, next_seq, context, created_at, updated_at)
VALUES (@id, @owner, @title, @title_by, @search_title, 1, 0, @created_at, @created_at)
ON CONFLICT (id) DO NOTHING;

-- name: GetThread :one
SELECT * FROM threads WHERE id = @id AND owner = @owner;

-- name: RenameThread :one
UPDATE threads SET title = @title, title_by = @title_by, search_title = @search_title
WHERE id = @id AND owner = @owner
RETURNING *;

-- SuggestTitle changes nothing if the title is the user's, or no worse than this one.
-- name: SuggestTitle :execrows
UPDATE threads SET title = @title, title_by = @title_by, search_title = @search_title
WHERE id = @id AND owner = @owner
    AND (title_by = '' OR (title_by = 'local' AND CAST(@title_by AS text) = 'model'));

-- DisownThread hides a thread from everybody until it is erased.
-- name: DisownThread :execrows
UPDATE threads SET owner = '', title = '', search_title = '' WHERE id = @id AND owner = @owner;

-- ExpireThread is DisownThread for a thread that ListExpired has listed. It changes
-- nothing if the thread has been used since.
-- name: ExpireThread :execrows
UPDATE threads SET owner = '', title = '', search_title = ''
WHERE threads.id = @id AND threads.owner = @owner AND threads.updated_at < @before
    AND NOT EXISTS (SELECT 1 FROM calls AS c WHERE c.thread_id = threads.id AND c.ended_at IS NULL)
    AND NOT EXISTS (SELECT 1 FROM turns AS u WHERE u.thread_id = threads.id AND u.ended_at IS NULL);

-- name: ListErased :many
SELECT id FROM threads WHERE owner = '' LIMIT 100;

-- HoldErased makes processes that erase the same thread take turns.
-- name: HoldErased :execrows
UPDATE threads SET updated_at = @updated_at WHERE id = @id AND owner = '';

-- name: EraseMessages :execrows
DELETE FROM messages WHERE id IN (SELECT m.id FROM messages AS m WHERE m.thread_id = @thread_id LIMIT CAST(@max_rows AS bigint));

-- name: EraseToolCalls :execrows
DELETE FROM tool_calls WHERE id IN (SELECT r.id FROM tool_calls AS r WHERE r.thread_id = @thread_id LIMIT CAST(@max_rows AS bigint));

-- name: EraseResponses :execrows
DELETE FROM responses WHERE id IN (SELECT r.id FROM responses AS r WHERE r.thread_id = @thread_id LIMIT CAST(@max_rows AS bigint));

-- name: EraseImages :execrows
DELETE FROM images WHERE id IN (SELECT r.id FROM images AS r WHERE r.thread_id = @thread_id LIMIT CAST(@max_rows AS bigint));

-- EraseThread also deletes what there are only few of.
-- name: EraseThread :exec
DELETE FROM threads WHERE id = @id AND owner = '';

-- ListExpired lists threads that nobody has used since a time and that have no live call
-- and no running turn, of one assistant or, with an empty id, of all; after one of them.
-- name: ListExpired :many
SELECT t.id, t.owner, t.assistant_id, t.assistant_owner, t.updated_at FROM threads AS t
WHERE t.updated_at < @before AND t.owner <> '' AND (t.assistant_id = @assistant_id OR CAST(@assistant_id AS text) = '')
    AND (t.updated_at > @after OR (t.updated_at = @after AND t.id > @after_id))
    AND NOT EXISTS (SELECT 1 FROM calls AS c WHERE c.thread_id = t.id AND c.ended_at IS NULL)
    AND NOT EXISTS (SELECT 1 FROM turns AS u WHERE u.thread_id = t.id AND u.ended_at IS NULL)
ORDER BY t.updated_at, t.id
LIMIT CAST(@max_rows AS bigint);

-- name: ResetThread :execrows
UPDATE threads SET context = context + 1, reset_seq = next_seq WHERE id = @id AND owner = @owner;

-- DrawSeq takes numbers from the thread's counter; used_at is for a new message, which
-- also counts as use of the thread. It locks the thread's row until the end of the
-- transaction, so numbers become visible in order.
-- name: DrawSeq :one
UPDATE threads SET next_seq = next_seq + CAST(@amount AS bigint), updated_at = coalesce(sqlc.narg('used_at'), updated_at)
WHERE id = @id AND owner = @owner
RETURNING *;
