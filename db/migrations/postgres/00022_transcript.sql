-- +goose Up

-- SQLite's view changes its form.
SELECT 1;

-- +goose Down
SELECT 1;
