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
