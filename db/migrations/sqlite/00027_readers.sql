-- +goose Up

-- Whether the instance reads notes from the table, because notifications do not arrive there.
ALTER TABLE instances ADD COLUMN reads_notes boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE instances DROP COLUMN reads_notes;
