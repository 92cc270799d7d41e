-- +goose Up

-- What was written lately waits in a list, which every search reads: keep it short.
-- Whoever writes when it is full files it, which takes less long, too.
ALTER INDEX IF EXISTS messages_by_words SET (gin_pending_list_limit = 256);

-- +goose Down
ALTER INDEX IF EXISTS messages_by_words RESET (gin_pending_list_limit);
