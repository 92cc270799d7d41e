-- ListThreads gives the threads among ids (a JSON array); an empty array is all.
-- name: ListThreads :many
SELECT t.* FROM threads AS t
WHERE t.owner = @owner
    AND (t.updated_at < @before OR (t.updated_at = @before AND t.id < @before_id))
    AND (CAST(@ids AS text) = '[]' OR t.id IN (SELECT jsonb_array_elements_text(CAST(CAST(@ids AS text) AS jsonb))))
ORDER BY t.updated_at DESC, t.id DESC
LIMIT CAST(@max_rows AS bigint);

-- ThreadsWithWord gives the owner's threads that have a word (in lower case) in the
-- title or in a message that is finished.
-- name: ThreadsWithWord :many
WITH found AS MATERIALIZED (
    SELECT m.thread_id FROM messages AS m
    WHERE m.status <> 'in_progress'
        AND m.search_text LIKE '%' || replace(replace(replace(CAST(@word AS text), '\', '\\'), '%', '\%'), '_', '\_') || '%'
)
SELECT t.id FROM threads AS t WHERE t.owner = @owner AND strpos(t.search_title, CAST(@word AS text)) > 0
UNION
SELECT t.id FROM found AS f
JOIN threads AS t ON t.id = f.thread_id
WHERE t.owner = @owner;

-- WordHits gives max_rows for a word that is common: that more than a tenth of the first
-- messages has. Counting hits with a limit would make the planner, which does not know
-- the word, read the whole table for a rare one.
-- name: WordHits :one
SELECT CAST(CASE
    WHEN count(*) = 1000 AND count(*) FILTER (WHERE strpos(s.search_text, CAST(@word AS text)) > 0) > 100 THEN CAST(@max_rows AS bigint)
    ELSE 0
END AS bigint)
FROM (SELECT m.search_text FROM messages AS m WHERE m.status <> 'in_progress' LIMIT 1000) AS s;

-- ThreadsWithCommonWord is ThreadsWithWord for a word that is soon found in most
-- threads without the index.
-- name: ThreadsWithCommonWord :many
SELECT t.id FROM threads AS t
WHERE t.owner = @owner AND (strpos(t.search_title, CAST(@word AS text)) > 0 OR EXISTS (
    SELECT 1 FROM messages AS m
    WHERE m.thread_id = t.id AND m.status <> 'in_progress' AND strpos(m.search_text, CAST(@word AS text)) > 0
));

-- SearchMessages gives what was said in the owner's other threads, first what
-- holds most of the words (a JSON array of words in lower case), then the latest.
-- name: SearchMessages :many
WITH w AS (
    SELECT jsonb_array_elements_text(CAST(CAST(@words AS text) AS jsonb)) AS value
), found AS MATERIALIZED (
    SELECT m.id FROM w
    JOIN messages AS m ON m.status <> 'in_progress'
        AND m.search_text LIKE '%' || replace(replace(replace(w.value, '\', '\\'), '%', '\%'), '_', '\_') || '%'
)
SELECT m.thread_id, t.title, m.role, m.text, m.created_at, count(*) AS hits
FROM found AS f
JOIN messages AS m ON m.id = f.id
JOIN threads AS t ON t.id = m.thread_id
WHERE t.owner = @owner AND m.thread_id <> @except_thread AND m.role <> 'system'
GROUP BY m.id, m.thread_id, t.title, m.role, m.text, m.created_at
ORDER BY hits DESC, m.created_at DESC, m.id DESC
LIMIT CAST(@max_rows AS bigint);
