-- +goose Up

-- How often somebody may do something, counted for all instances together.
CREATE TABLE rates (
    -- what is counted, and of whom
    name    text   NOT NULL PRIMARY KEY,
    -- when the whole allowance is free again, in microseconds since 1970
    full_at bigint NOT NULL
);

-- +goose Down
DROP TABLE rates;
