-- +goose Up

-- PostgreSQL's index has a setting that SQLite's does not need.
SELECT 1;

-- +goose Down
SELECT 1;
