-- name: KeepSharedSecret :exec
INSERT INTO shared_secrets (name, value, created_at) VALUES (@name, @value, @created_at)
ON CONFLICT (name) DO NOTHING;

-- name: GetSharedSecret :one
SELECT * FROM shared_secrets WHERE name = @name;

-- name: InsertAccessToken :exec
INSERT INTO access_tokens (id, kind, owner, data, created_at, expires_at)
VALUES (@id, @kind, @owner, @data, @created_at, @expires_at);

-- name: GetAccessToken :one
SELECT * FROM access_tokens WHERE id = @id AND kind = @kind;

-- name: CountAccessTokens :one
SELECT count(*) FROM access_tokens WHERE owner = @owner AND kind = @kind AND expires_at > @now;

-- UseAccessToken makes a token another kind, without its data, unless it is older than since. What it keeps says that it
-- was there.
-- name: UseAccessToken :execrows
UPDATE access_tokens SET kind = @used, data = '' WHERE id = @id AND kind = @kind AND created_at > @since;

-- name: DeleteAccessToken :execrows
DELETE FROM access_tokens WHERE id = @id AND kind = @kind AND owner = @owner;

-- name: DeleteAccessTokensOf :execrows
DELETE FROM access_tokens WHERE owner = @owner;

-- name: DeleteExpiredAccessTokens :exec
DELETE FROM access_tokens WHERE expires_at <= @expired_at;

-- TrimAccessTokens deletes all but the newest tokens of an owner and a kind.
-- name: TrimAccessTokens :exec
DELETE FROM access_tokens WHERE access_tokens.owner = @owner AND access_tokens.kind = @kind AND access_tokens.id NOT IN (
    SELECT t.id FROM access_tokens AS t WHERE t.owner = @owner AND t.kind = @kind
    ORDER BY t.created_at DESC, t.id DESC LIMIT CAST(@keep AS bigint));
