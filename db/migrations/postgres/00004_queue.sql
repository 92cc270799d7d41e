-- +goose Up

-- When a turn has ended its row stays, so that the next one can keep a distance.
ALTER TABLE turns ADD COLUMN ended_at timestamptz;

-- state is queued, sending, answering (it is a message of the thread, and its turn
-- has not ended) or sent. The id of the message of the thread that it becomes is
-- given when it is queued: so it becomes one once.
ALTER TABLE queued_messages ADD COLUMN message_id text NOT NULL DEFAULT '';
-- the process that sends it
ALTER TABLE queued_messages ADD COLUMN instance text NOT NULL DEFAULT '';
-- until when a failure keeps it, and the queue behind it, waiting
ALTER TABLE queued_messages ADD COLUMN not_before timestamptz;
CREATE INDEX queued_messages_waiting ON queued_messages (thread_id) WHERE state <> 'sent';

-- A queue that stands still until somebody lets it go on.
CREATE TABLE queue_pauses (
    thread_id text        NOT NULL PRIMARY KEY REFERENCES threads (id) ON DELETE CASCADE,
    -- a word for programs, and words for people
    reason    text        NOT NULL,
    message   text        NOT NULL,
    paused_at timestamptz NOT NULL
);

-- +goose Down
DROP TABLE queue_pauses;
DROP INDEX queued_messages_waiting;
ALTER TABLE queued_messages DROP COLUMN not_before;
ALTER TABLE queued_messages DROP COLUMN instance;
ALTER TABLE queued_messages DROP COLUMN message_id;
ALTER TABLE turns DROP COLUMN ended_at;
