-- +goose Up

-- What a process has begun is its own until it ends that, or is fenced.
ALTER TABLE turns DROP COLUMN lease_until;
ALTER TABLE queued_messages DROP COLUMN lease_until;

-- Events that the transactions that cause them have written. One process at a time moves them to the others, which gives
-- them their numbers.
CREATE TABLE unnumbered_events (
    id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mark      text        NOT NULL,
    owner     text        NOT NULL,
    thread_id text        NOT NULL,
    type      text        NOT NULL,
    data      text        NOT NULL,
    at        timestamptz NOT NULL
);
