-- +goose Up

-- A tool pin is the definition of an MCP server's tool as it was first seen, or last
-- accepted: a server that changes it later is not simply believed.
CREATE TABLE tool_pins (
    server     text NOT NULL,
    tool       text NOT NULL, -- its name on the server
    -- JSON: description and parameters
    definition text NOT NULL,
    pinned_at  datetime NOT NULL,
    PRIMARY KEY (server, tool)
);

-- +goose Down
DROP TABLE tool_pins;
