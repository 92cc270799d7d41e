-- +goose Up

-- since when an assistant has been shared; null: since it was made. While it is private it means nothing
ALTER TABLE assistants ADD COLUMN shared_at datetime;
