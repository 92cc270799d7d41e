-- name: CreateThread :one
INSERT INTO threads (id, owner, title, search_title, next_seq, context, created_at, updated_at)
VALUES (@id, @owner, @title, @search_title, 1, 0, @created_at, @created_at)
RETURNING *;

-- name: GetThread :one
SELECT * FROM threads WHERE id = @id AND owner = @owner;

-- name: RenameThread :one
UPDATE threads SET title = @title, search_title = @search_title
WHERE id = @id AND owner = @owner
RETURNING *;

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
