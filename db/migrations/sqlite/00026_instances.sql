-- +goose Up

-- Whether the instance reads notes from the table, because notifications do not arrive there.
ALTER TABLE instances ADD COLUMN reads_notes boolean NOT NULL DEFAULT false;

-- The running turns, which every process looks for all the time: a thread keeps the row of its last one.
DROP INDEX turns_by_instance;
CREATE INDEX turns_open ON turns (instance) WHERE ended_at IS NULL;

-- +goose Down
DROP INDEX turns_open;
CREATE INDEX turns_by_instance ON turns (instance);
ALTER TABLE instances DROP COLUMN reads_notes;
