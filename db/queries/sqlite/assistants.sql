-- ListAssistantsOf lists those of an owner, without what is long in them.
-- name: ListAssistantsOf :many
SELECT owner, id, shared, CAST(json_remove(data, '$.instructions', '$.greeting', '$.variables', '$.tools', '$.mcp_servers', '$.http_tools', '$.extract') AS text) AS data, created_at, updated_at
FROM assistants WHERE owner = @owner ORDER BY created_at, id;

-- ListAssistantsFor lists those that others share, after one of them: of several with an id the one that was shared first, and not if the owner has one.
-- name: ListAssistantsFor :many
SELECT a.owner, a.id, a.shared, CAST(json_remove(a.data, '$.instructions', '$.greeting', '$.variables', '$.tools', '$.mcp_servers', '$.http_tools', '$.extract') AS text) AS data, a.created_at, a.updated_at
FROM assistants AS a
WHERE a.shared AND a.owner <> @owner AND (a.created_at, a.owner, a.id) > (@after_at, CAST(@after_owner AS text), CAST(@after_id AS text))
    AND NOT EXISTS (SELECT 1 FROM assistants AS b WHERE b.id = a.id AND (b.owner = @owner OR b.shared AND (coalesce(b.shared_at, b.created_at), b.owner) < (coalesce(a.shared_at, a.created_at), a.owner)))
ORDER BY a.created_at, a.owner, a.id
LIMIT CAST(@max_rows AS bigint);
