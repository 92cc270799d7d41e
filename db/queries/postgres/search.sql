-- ListThreads gives threads in which every word (a JSON array of words in
-- lower case) is found in the title or in some message.
-- name: ListThreads :many
SELECT t.* FROM threads AS t
WHERE t.owner = @owner
    AND (t.updated_at < @before OR (t.updated_at = @before AND t.id < @before_id))
    AND NOT EXISTS (
        SELECT 1 FROM jsonb_array_elements_text(CAST(CAST(@words AS text) AS jsonb)) AS w (value)
        WHERE strpos(t.search_title, w.value) = 0
            AND NOT EXISTS (
                SELECT 1 FROM messages AS m WHERE m.thread_id = t.id AND strpos(m.search_text, w.value) > 0
            )
    )
ORDER BY t.updated_at DESC, t.id DESC
LIMIT CAST(@max_rows AS bigint);

-- SearchMessages gives what was said in the owner's other threads, first what
-- holds most of the words (a JSON array of words in lower case), then the latest.
-- name: SearchMessages :many
SELECT m.thread_id, t.title, m.role, m.text, m.created_at, CAST((
    SELECT count(*) FROM jsonb_array_elements_text(CAST(CAST(@words AS text) AS jsonb)) AS w (value)
    WHERE strpos(m.search_text, w.value) > 0
) AS bigint) AS hits
FROM messages AS m
JOIN threads AS t ON t.id = m.thread_id
WHERE t.owner = @owner AND m.thread_id <> @except_thread AND m.role <> 'system' AND m.status <> 'in_progress'
    AND EXISTS (
        SELECT 1 FROM jsonb_array_elements_text(CAST(CAST(@words AS text) AS jsonb)) AS w (value)
        WHERE strpos(m.search_text, w.value) > 0
    )
ORDER BY hits DESC, m.created_at DESC, m.id DESC
LIMIT CAST(@max_rows AS bigint);
