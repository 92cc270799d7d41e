-- +goose Up

-- One process serves an SQLite file, so it has nobody to send notes to.
SELECT 1;

-- +goose Down
SELECT 1;
