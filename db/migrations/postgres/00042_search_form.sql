-- +goose Up

-- What is searched is in one form of Unicode, so that the same letters are found however they are written.
UPDATE messages SET search_text = lower(normalize(search_text, NFKC)) WHERE search_text IS NOT NFKC NORMALIZED;
UPDATE threads SET search_title = lower(normalize(search_title, NFKC)) WHERE search_title IS NOT NFKC NORMALIZED;
