-- +goose Up

-- Full-text search over what is finished: every three letters that follow each other
-- are in the index, so that parts of words are found, too. Where the extension may
-- not be made, search works without the index.
-- +goose StatementBegin
DO $$
BEGIN
    CREATE EXTENSION IF NOT EXISTS pg_trgm;
    CREATE INDEX messages_by_words ON messages USING gin (search_text gin_trgm_ops) WHERE status <> 'in_progress';
EXCEPTION WHEN OTHERS THEN
    RAISE NOTICE 'search has no index: %', SQLERRM;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP INDEX IF EXISTS messages_by_words;
