-- +goose Up

-- What a model was used for: response (an answer), transcription, title.
ALTER TABLE responses ADD COLUMN kind text NOT NULL DEFAULT 'response';
UPDATE responses SET kind = 'title', status_reason = '' WHERE status_reason = 'title' AND call_id = '' AND message_id = '';
UPDATE responses SET kind = 'transcription'
WHERE call_id <> '' AND message_id IN (SELECT m.id FROM messages AS m WHERE m.role = 'user');

-- +goose Down
UPDATE responses SET status_reason = 'title' WHERE kind = 'title';
ALTER TABLE responses DROP COLUMN kind;
