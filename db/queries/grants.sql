-- name: GetMCPGrant :one
SELECT * FROM mcp_grants WHERE owner = @owner AND server = @server;

-- name: SaveMCPGrant :exec
INSERT INTO mcp_grants (owner, server, sealed, version, renewing_until, created_at, updated_at)
VALUES (@owner, @server, @sealed, @version, @now, @now, @now)
ON CONFLICT (owner, server) DO UPDATE
SET sealed = excluded.sealed, version = excluded.version, renewing_until = excluded.renewing_until, updated_at = excluded.updated_at;

-- BeginMCPRenewal makes the caller the only one who renews the grant for a while.
-- name: BeginMCPRenewal :execrows
UPDATE mcp_grants SET renewing_until = @until
WHERE owner = @owner AND server = @server AND version = @version AND renewing_until <= @now;

-- name: RenewMCPGrant :execrows
UPDATE mcp_grants SET sealed = @sealed, version = version + 1, renewing_until = @now, updated_at = @now
WHERE owner = @owner AND server = @server AND version = @version;

-- name: EndMCPRenewal :exec
UPDATE mcp_grants SET renewing_until = @now WHERE owner = @owner AND server = @server AND version = @version;

-- name: DeleteMCPGrant :execrows
DELETE FROM mcp_grants WHERE owner = @owner AND server = @server;

-- name: DeleteMCPGrantVersion :execrows
DELETE FROM mcp_grants WHERE owner = @owner AND server = @server AND version = @version;

-- name: InsertMCPSignIn :exec
INSERT INTO mcp_sign_ins (state, owner, server, sealed, expires_at) VALUES (@state, @owner, @server, @sealed, @expires_at);

-- name: DeleteMCPSignInsOf :execrows
DELETE FROM mcp_sign_ins WHERE owner = @owner AND server = @server;

-- name: GetMCPSignIn :one
SELECT * FROM mcp_sign_ins WHERE state = @state;

-- name: DeleteMCPSignIn :execrows
DELETE FROM mcp_sign_ins WHERE state = @state;

-- name: DeleteExpiredMCPSignIns :exec
DELETE FROM mcp_sign_ins WHERE expires_at <= @now;

-- name: GetMCPClient :one
SELECT * FROM mcp_clients WHERE name = @name;

-- name: SaveMCPClient :exec
INSERT INTO mcp_clients (name, sealed, created_at) VALUES (@name, @sealed, @created_at)
ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, created_at = excluded.created_at;

-- name: DeleteMCPGrantsOfOwner :exec
DELETE FROM mcp_grants WHERE owner = @owner;

-- DeleteMCPPinsOfOwner deletes what was seen of the tools of an owner's accounts: mcptool keeps it under "SERVER of OWNER", in
-- which SERVER never has " of ".
-- name: DeleteMCPPinsOfOwner :exec
DELETE FROM tool_pins WHERE server IN (SELECT replace(replace(g.server, '%', '%25'), ' of ', '%20of%20') || ' of ' || g.owner FROM mcp_grants AS g WHERE g.owner = @owner);

-- name: DeleteMCPSignInsOfOwner :exec
DELETE FROM mcp_sign_ins WHERE owner = @owner;
