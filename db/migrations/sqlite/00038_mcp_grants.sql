-- +goose Up

-- What an owner has been granted at an MCP server that wants each owner to sign in. Keys and tokens are in what is sealed, with a key
-- that is not in the database if VOICEBRIDGE_SECRET is set.
CREATE TABLE mcp_grants (
    owner          text        NOT NULL,
    server         text        NOT NULL,
    sealed         text        NOT NULL,
    version        bigint      NOT NULL, -- of what is sealed
    -- until then only the process that has set it renews the grant
    renewing_until datetime    NOT NULL,
    created_at     datetime    NOT NULL,
    updated_at     datetime    NOT NULL,
    PRIMARY KEY (owner, server)
);

-- Sign-ins that have begun: the one that comes back with a state.
CREATE TABLE mcp_sign_ins (
    state      text        NOT NULL PRIMARY KEY, -- its hash
    owner      text        NOT NULL,
    server     text        NOT NULL,
    sealed     text        NOT NULL,
    expires_at datetime    NOT NULL,
    UNIQUE (owner, server)
);

-- What authorization servers know this program as, where it has registered itself.
CREATE TABLE mcp_clients (
    name       text        NOT NULL PRIMARY KEY, -- the MCP server, and the address to which browsers come back
    sealed     text        NOT NULL,
    created_at datetime    NOT NULL
);
