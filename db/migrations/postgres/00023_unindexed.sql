-- +goose Up

-- PostgreSQL's search index keeps its own list of what is not in it yet.
SELECT 1;

-- +goose Down

SELECT 1;
