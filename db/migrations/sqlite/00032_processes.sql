-- +goose Up

-- What a process has begun is its own until it ends that, or is fenced.
ALTER TABLE turns DROP COLUMN lease_until;
ALTER TABLE queued_messages DROP COLUMN lease_until;
