-- +goose Up

-- SQLite's index changes its form.
SELECT 1;

-- +goose Down
SELECT 1;
