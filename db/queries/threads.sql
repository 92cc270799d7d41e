-- name: CreateThread :one
INSERT INTO threads (id, owner, title, title_by, search_title, next_seq, context, created_at, updated_at)
VALUES (@id, @owner, @title, @title_by, @search_title, 1, 0, @created_at, @created_at)
RETURNING *;

-- name: GetThread :one
SELECT * FROM threads WHERE id = @id AND owner = @owner;

-- name: RenameThread :one
UPDATE threads SET title = @title, title_by = @title_by, search_title = @search_title
WHERE id = @id AND owner = @owner
RETURNING *;

-- SuggestTitle changes nothing when the title is a user's, or better already.
-- name: SuggestTitle :execrows
UPDATE threads SET title = @title, title_by = @title_by, search_title = @search_title
WHERE id = @id AND owner = @owner
    AND (title_by = '' OR (title_by = 'local' AND CAST(@title_by AS text) = 'model'));

-- name: DeleteThread :execrows
DELETE FROM threads WHERE id = @id AND owner = @owner;

-- name: ResetThread :execrows
UPDATE threads SET context = context + 1 WHERE id = @id AND owner = @owner;

-- DrawSeq takes numbers from the thread's counter. It holds the thread's row
-- until the end of the transaction, so numbers become visible in their order.
-- name: DrawSeq :one
UPDATE threads SET next_seq = next_seq + CAST(@amount AS bigint)
WHERE id = @id AND owner = @owner
RETURNING *;

-- DrawSeqForNew is DrawSeq of one number for a new message.
-- name: DrawSeqForNew :one
UPDATE threads SET next_seq = next_seq + 1, updated_at = @updated_at
WHERE id = @id AND owner = @owner
RETURNING *;

-- EnsureThread changes nothing when there is a thread with the id, whoever owns it.
-- name: EnsureThread :execrows
INSERT INTO threads (id, owner, title, title_by, search_title, next_seq, context, created_at, updated_at)
VALUES (@id, @owner, '', '', '', 1, 0, @created_at, @created_at)
ON CONFLICT (id) DO NOTHING;
