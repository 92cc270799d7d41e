-- ListThreads returns the threads among ids (a JSON array; an empty one is all) that have
-- each of the words (a JSON array, in lower case) in the title or in a message that is
-- finished. A thread is asked for a word in the index, which knows words of three letters
-- and more, and in what is not in the index yet.
-- name: ListThreads :many
SELECT t.* FROM threads AS t
WHERE t.owner = @owner
    AND (t.updated_at < @before OR (t.updated_at = @before AND t.id < @before_id))
    AND (CAST(@ids AS text) = '[]' OR t.id IN (SELECT w.value FROM json_each(CAST(@ids AS text)) AS w))
    AND NOT EXISTS (
        SELECT 1 FROM json_each(CAST(@words AS text)) AS w
        WHERE instr(t.search_title, w.value) = 0
            AND NOT EXISTS (
                SELECT 1 FROM thread_numbers AS n
                CROSS JOIN message_index AS i ON i.rowid BETWEEN n.number << 32 AND (n.number << 32) + 4294967295
                WHERE n.thread_id = t.id AND length(w.value) >= 3 AND i.words MATCH '"' || replace(w.value, '"', '""') || '"'
            )
            AND NOT EXISTS (
                SELECT 1 FROM unindexed_messages AS u CROSS JOIN messages AS m ON m.id = u.message_id
                WHERE u.thread_id = t.id AND length(w.value) >= 3 AND instr(m.search_text, w.value) > 0
            )
            AND NOT EXISTS (
                SELECT 1 FROM messages AS m
                WHERE length(w.value) < 3 AND m.thread_id = t.id AND m.status <> 'in_progress' AND instr(m.search_text, w.value) > 0
            )
    )
ORDER BY t.updated_at DESC, t.id DESC
LIMIT CAST(@max_rows AS bigint);

-- ThreadsWithWord returns the threads that have a word (in lower case) in the title or in
-- a message that is finished. A row without text says that these are not all, because
-- the word is a common one: that max_rows threads have, or shorter than the index knows.
-- Each thread takes one step in the index, however often it has the word; what is not in
-- the index yet is read.
-- name: ThreadsWithWord :many
WITH RECURSIVE titled AS (
    SELECT t.id FROM threads AS t WHERE t.owner = @owner AND instr(t.search_title, CAST(@word AS text)) > 0
), hits (number) AS (
    SELECT (
        SELECT n.number FROM message_index AS i CROSS JOIN message_numbers AS n ON n.number = i.rowid
        WHERE length(CAST(@word AS text)) >= 3 AND i.words MATCH '"' || replace(CAST(@word AS text), '"', '""') || '"'
        ORDER BY i.rowid LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT n.number FROM message_index AS i CROSS JOIN message_numbers AS n ON n.number = i.rowid
        WHERE i.words MATCH '"' || replace(CAST(@word AS text), '"', '""') || '"' AND i.rowid >= ((h.number >> 32) + 1) << 32
        ORDER BY i.rowid LIMIT 1
    )
    FROM hits AS h WHERE h.number IS NOT NULL
    LIMIT CAST(@max_rows AS bigint)
)
SELECT w.id FROM titled AS w
UNION
SELECT t.id FROM hits AS h
CROSS JOIN thread_numbers AS n ON n.number = h.number >> 32
CROSS JOIN threads AS t ON t.id = n.thread_id
WHERE t.owner = @owner
UNION
SELECT t.id FROM unindexed_messages AS u
CROSS JOIN threads AS t ON t.id = u.thread_id AND t.owner = @owner
CROSS JOIN messages AS m ON m.id = u.message_id
WHERE length(CAST(@word AS text)) >= 3 AND instr(m.search_text, CAST(@word AS text)) > 0
UNION
SELECT '' WHERE length(CAST(@word AS text)) < 3 OR (SELECT count(h.number) FROM hits AS h) = CAST(@max_rows AS bigint);

-- MessagesWithWord returns messages of the owner's other threads that have a word (in
-- lower case): not all of a common one, but those of the threads that are in use, or
-- were begun last.
-- name: MessagesWithWord :many
SELECT f.id FROM (
    SELECT h.message_id AS id FROM (
        SELECT newer.message_id, newer.number FROM (
            SELECT n.message_id, n.number FROM message_index AS i CROSS JOIN message_numbers AS n ON n.number = i.rowid
            WHERE length(CAST(@word AS text)) >= 3 AND i.words MATCH '"' || replace(CAST(@word AS text), '"', '""') || '"'
                AND i.rowid > coalesce((SELECT (e.number << 32) + 4294967295 FROM thread_numbers AS e WHERE e.thread_id = @except_thread), 0)
            ORDER BY i.rowid DESC LIMIT 5000
        ) AS newer
        UNION ALL
        SELECT older.message_id, older.number FROM (
            SELECT n.message_id, n.number FROM message_index AS i CROSS JOIN message_numbers AS n ON n.number = i.rowid
            WHERE length(CAST(@word AS text)) >= 3 AND i.words MATCH '"' || replace(CAST(@word AS text), '"', '""') || '"'
                AND i.rowid < (SELECT e.number << 32 FROM thread_numbers AS e WHERE e.thread_id = @except_thread)
            ORDER BY i.rowid DESC LIMIT 5000
        ) AS older
    ) AS h
    CROSS JOIN thread_numbers AS tn ON tn.number = h.number >> 32
    CROSS JOIN threads AS t ON t.id = tn.thread_id AND t.owner = @owner
    LIMIT CAST(@max_rows AS bigint)
) AS f
UNION ALL
SELECT f.id FROM (
    SELECT m.id FROM unindexed_messages AS u
    CROSS JOIN threads AS t ON t.id = u.thread_id AND t.owner = @owner AND t.id <> @except_thread
    CROSS JOIN messages AS m ON m.id = u.message_id
    WHERE length(CAST(@word AS text)) >= 3 AND instr(m.search_text, CAST(@word AS text)) > 0
    LIMIT CAST(@max_rows AS bigint)
) AS f
UNION ALL
SELECT f.id FROM (
    SELECT m.id FROM (
        SELECT t.id, t.next_seq FROM threads AS t
        WHERE length(CAST(@word AS text)) < 3 AND t.owner = @owner AND t.id <> @except_thread
        ORDER BY t.updated_at DESC LIMIT 20
    ) AS t
    CROSS JOIN messages AS m ON m.thread_id = t.id AND m.seq >= t.next_seq - 500
    WHERE m.status <> 'in_progress' AND instr(m.search_text, CAST(@word AS text)) > 0
    LIMIT CAST(@max_rows AS bigint)
) AS f;

-- SearchMessages returns those among ids (a JSON array) that are of the owner's other
-- threads, first what holds most of the words (a JSON array of words in lower case), then
-- the latest.
-- name: SearchMessages :many
SELECT
    m.thread_id, t.title, m.role, m.text, m.created_at,
    (SELECT count(*) FROM json_each(CAST(@words AS text)) AS w WHERE instr(m.search_text, w.value) > 0) AS hits
FROM json_each(CAST(@ids AS text)) AS i
CROSS JOIN messages AS m ON m.id = i.value
CROSS JOIN threads AS t ON t.id = m.thread_id
WHERE t.owner = @owner AND m.thread_id <> @except_thread AND m.role <> 'system'
ORDER BY hits DESC, m.created_at DESC, m.id DESC
LIMIT CAST(@max_rows AS bigint);
