-- +goose Up

-- of a session that is billed by its length: the upstream has not said how long it was
ALTER TABLE responses ADD COLUMN estimated boolean NOT NULL DEFAULT false;
