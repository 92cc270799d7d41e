-- ListThreads gives the threads among ids (a JSON array); an empty array is all.
-- name: ListThreads :many
SELECT t.* FROM threads AS t
WHERE t.owner = @owner
    AND (t.updated_at < @before OR (t.updated_at = @before AND t.id < @before_id))
    AND (CAST(@ids AS text) = '[]' OR t.id IN (SELECT w.value FROM json_each(CAST(@ids AS text)) AS w))
ORDER BY t.updated_at DESC, t.id DESC
LIMIT CAST(@max_rows AS bigint);

-- ThreadsWithWord gives the owner's threads that have a word (in lower case) in the
-- title or in a message that is finished. The index knows words of three letters and
-- more.
-- name: ThreadsWithWord :many
SELECT t.id FROM threads AS t WHERE instr(t.search_title, CAST(@word AS text)) > 0 AND t.owner = @owner
UNION
SELECT t.id FROM message_index AS i
CROSS JOIN message_numbers AS n ON n.number = i.rowid
CROSS JOIN messages AS m ON m.id = n.message_id
CROSS JOIN threads AS t ON t.id = m.thread_id
WHERE i.words MATCH '"' || replace(CAST(@word AS text), '"', '""') || '"' AND t.owner = @owner
UNION
SELECT t.id FROM threads AS t
CROSS JOIN messages AS m ON m.thread_id = t.id
WHERE length(CAST(@word AS text)) < 3 AND t.owner = @owner AND m.status <> 'in_progress'
    AND instr(m.search_text, CAST(@word AS text)) > 0;

-- WordHits counts messages of all owners with a word, as far as max_rows.
-- name: WordHits :one
SELECT count(*) FROM (
    SELECT 1 FROM message_index AS i
    WHERE i.words MATCH '"' || replace(CAST(@word AS text), '"', '""') || '"'
    LIMIT CAST(@max_rows AS bigint)
);

-- ThreadsWithCommonWord is ThreadsWithWord for a word that is soon found in most
-- threads without the index.
-- name: ThreadsWithCommonWord :many
SELECT t.id FROM threads AS t
WHERE t.owner = @owner AND (instr(t.search_title, CAST(@word AS text)) > 0 OR EXISTS (
    SELECT 1 FROM messages AS m
    WHERE m.thread_id = t.id AND m.status <> 'in_progress' AND instr(m.search_text, CAST(@word AS text)) > 0
));

-- SearchMessages gives what was said in the owner's other threads, first what
-- holds most of the words (a JSON array of words in lower case), then the latest.
-- name: SearchMessages :many
WITH found AS (
    SELECT n.message_id
    FROM json_each(CAST(@words AS text)) AS w
    CROSS JOIN message_index AS i ON i.words MATCH '"' || replace(w.value, '"', '""') || '"'
    CROSS JOIN message_numbers AS n ON n.number = i.rowid
    WHERE length(w.value) >= 3
    UNION ALL
    SELECT m.id
    FROM json_each(CAST(@words AS text)) AS w
    CROSS JOIN threads AS o ON o.owner = @owner
    CROSS JOIN messages AS m ON m.thread_id = o.id AND m.status <> 'in_progress' AND instr(m.search_text, w.value) > 0
    WHERE length(w.value) < 3
)
SELECT m.thread_id, t.title, m.role, m.text, m.created_at, count(*) AS hits
FROM found AS f
JOIN messages AS m ON m.id = f.message_id
JOIN threads AS t ON t.id = m.thread_id
WHERE t.owner = @owner AND m.thread_id <> @except_thread AND m.role <> 'system'
GROUP BY m.id, m.thread_id, t.title, m.role, m.text, m.created_at
ORDER BY hits DESC, m.created_at DESC, m.id DESC
LIMIT CAST(@max_rows AS bigint);
