-- +goose Up

-- The index of threads by their owners serves as well. SQLite prepared every query
-- that compares an owner again and again, because this one said WHERE owner = ''.
DROP INDEX threads_erased;

-- +goose Down
CREATE INDEX threads_erased ON threads (id) WHERE owner = '';
