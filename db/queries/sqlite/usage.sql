-- UsageByDay sums what the owner's responses used, by thread and UTC day, the latest day
-- first. priced counts the responses whose cost is known, unpriced those that used
-- tokens of unknown price.
-- name: UsageByDay :many
SELECT
    t.id AS thread_id,
    t.title,
    CAST(substr(r.created_at, 1, 10) AS text) AS day,
    count(*) AS responses,
    CAST(sum(r.input_tokens) AS bigint) AS input_tokens,
    CAST(sum(r.output_tokens) AS bigint) AS output_tokens,
    CAST(sum(r.cached_tokens) AS bigint) AS cached_tokens,
    CAST(coalesce(sum(r.cost_usd), 0) AS double precision) AS cost_usd,
    count(r.cost_usd) AS priced,
    CAST(sum(CASE WHEN r.cost_usd IS NULL AND (r.input_tokens + r.output_tokens > 0 OR r.status = 'completed') THEN 1 ELSE 0 END) AS bigint) AS unpriced
FROM responses AS r
JOIN threads AS t ON t.id = r.thread_id
WHERE t.owner = @owner AND r.created_at >= @since AND r.created_at < @before
GROUP BY t.id, t.title, day
ORDER BY day DESC, t.id DESC
LIMIT CAST(@max_rows AS bigint);
