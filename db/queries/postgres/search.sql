-- ListThreads returns the threads among ids (a JSON array; an empty one is all) that have
-- each of the words (a JSON array, in lower case) in the title or in a message that is
-- finished.
-- name: ListThreads :many
SELECT t.* FROM threads AS t
WHERE t.owner = @owner
    AND (t.updated_at < @before OR (t.updated_at = @before AND t.id < @before_id))
    AND (CAST(@ids AS text) = '[]' OR t.id IN (SELECT jsonb_array_elements_text(CAST(CAST(@ids AS text) AS jsonb))))
    AND NOT EXISTS (
        SELECT 1 FROM jsonb_array_elements_text(CAST(CAST(@words AS text) AS jsonb)) AS w
        WHERE strpos(t.search_title, w.value) = 0 AND NOT EXISTS (
            SELECT 1 FROM messages AS m
            WHERE m.thread_id = t.id AND m.status <> 'in_progress' AND strpos(m.search_text, w.value) > 0
        )
    )
ORDER BY t.updated_at DESC, t.id DESC
LIMIT CAST(@max_rows AS bigint);

-- ThreadsWithWord returns the threads that have a word (in lower case) in the title or in
-- a message that is finished. A row without text says that these are not all, because
-- the word is a common one: that max_rows threads have, or one in a hundred of the first
-- messages, or that is shorter than the index knows.
-- name: ThreadsWithWord :many
WITH titled AS (
    SELECT t.id FROM threads AS t WHERE t.owner = @owner AND strpos(t.search_title, CAST(@word AS text)) > 0
), sample AS MATERIALIZED (
    SELECT length(CAST(@word AS text)) < 3 OR count(*) = 1000 AND count(*) FILTER (WHERE strpos(s.search_text, CAST(@word AS text)) > 0) > 10 AS common
    FROM (SELECT m.search_text FROM messages AS m WHERE m.status <> 'in_progress' LIMIT 1000) AS s
), found AS MATERIALIZED (
    SELECT m.thread_id FROM messages AS m
    WHERE NOT (SELECT s.common FROM sample AS s) AND m.status <> 'in_progress'
        AND m.search_text LIKE '%' || replace(replace(replace(CAST(@word AS text), '\', '\\'), '%', '\%'), '_', '\_') || '%'
), with_word AS MATERIALIZED (
    SELECT DISTINCT t.id FROM found AS f JOIN threads AS t ON t.id = f.thread_id
    WHERE t.owner = @owner
    LIMIT CAST(@max_rows AS bigint)
)
SELECT w.id FROM titled AS w
UNION
SELECT w.id FROM with_word AS w
UNION
SELECT '' FROM sample AS s WHERE s.common OR (SELECT count(*) FROM with_word) = CAST(@max_rows AS bigint);

-- MessagesWithWord returns messages of the owner's other threads that have a word (in
-- lower case): not all of a common one, but those of the threads that are in use, or
-- were begun last.
-- name: MessagesWithWord :many
WITH sample AS MATERIALIZED (
    SELECT length(CAST(@word AS text)) < 3 OR count(*) = 1000 AND count(*) FILTER (WHERE strpos(s.search_text, CAST(@word AS text)) > 0) > 10 AS common
    FROM (SELECT m.search_text FROM messages AS m WHERE m.status <> 'in_progress' LIMIT 1000) AS s
), found AS MATERIALIZED (
    SELECT m.id, m.thread_id, m.created_at FROM messages AS m
    WHERE NOT (SELECT s.common FROM sample AS s) AND m.status <> 'in_progress'
        AND m.search_text LIKE '%' || replace(replace(replace(CAST(@word AS text), '\', '\\'), '%', '\%'), '_', '\_') || '%'
), latest AS MATERIALIZED (
    SELECT t.id, t.next_seq FROM threads AS t
    WHERE (SELECT s.common FROM sample AS s) AND t.id <> @except_thread AND t.owner = @owner
    ORDER BY t.updated_at DESC LIMIT 20
)
(
    SELECT f.id FROM found AS f JOIN threads AS t ON t.id = f.thread_id
    WHERE t.owner = @owner AND t.id <> @except_thread
    ORDER BY f.created_at DESC
    LIMIT CAST(@max_rows AS bigint)
)
UNION ALL
(
    SELECT m.id FROM latest AS l JOIN messages AS m ON m.thread_id = l.id AND m.seq >= l.next_seq - 500
    WHERE m.status <> 'in_progress' AND strpos(m.search_text, CAST(@word AS text)) > 0
    LIMIT CAST(@max_rows AS bigint)
);

-- SearchMessages returns those among ids (a JSON array) that are of the owner's other
-- threads, first what holds most of the words (a JSON array of words in lower case), then
-- the latest.
-- name: SearchMessages :many
SELECT
    m.thread_id, t.title, m.role, m.text, m.created_at,
    (SELECT count(*) FROM jsonb_array_elements_text(CAST(CAST(@words AS text) AS jsonb)) AS w WHERE strpos(m.search_text, w.value) > 0) AS hits
FROM messages AS m
JOIN threads AS t ON t.id = m.thread_id
WHERE m.id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(CAST(@ids AS text) AS jsonb)))) AND t.owner = @owner AND m.thread_id <> @except_thread AND m.role <> 'system'
ORDER BY hits DESC, m.created_at DESC, m.id DESC
LIMIT CAST(@max_rows AS bigint);
