-- +goose Up

-- Which call of its thread this is. What a call said may be saved long after its end, from the spool of a process that
-- was cut off, and still belongs before what later calls said. Calls of older versions have 0.
ALTER TABLE calls ADD COLUMN place bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE calls DROP COLUMN place;
