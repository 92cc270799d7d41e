-- +goose Up

-- What instances that share the database must know alike, by its name.
CREATE TABLE shared_secrets (
    name       text NOT NULL PRIMARY KEY,
    value      text NOT NULL,
    created_at datetime NOT NULL
);

-- An access token is a session of the page or a client secret. The id alone opens
-- nothing: whoever shows it signs it with a secret that is not in this table.
CREATE TABLE access_tokens (
    id         text NOT NULL PRIMARY KEY,
    kind       text NOT NULL, -- session, client_secret
    owner      text NOT NULL,
    -- JSON, which the kind gives its form
    data       text NOT NULL,
    created_at datetime NOT NULL,
    expires_at datetime NOT NULL
);
CREATE INDEX access_tokens_by_owner ON access_tokens (owner, kind, created_at);
CREATE INDEX access_tokens_by_end ON access_tokens (expires_at);

-- +goose Down
DROP TABLE access_tokens;
DROP TABLE shared_secrets;
