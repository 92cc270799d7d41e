-- +goose Up

-- Calls out, by telephone. One that was answered has a row in calls with the same id, which says how it went on.
CREATE TABLE dials (
    id              text    NOT NULL PRIMARY KEY,
    thread_id       text    NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    owner           text    NOT NULL,
    line            text    NOT NULL,
    number          text    NOT NULL, -- that is called
    assistant_id    text    NOT NULL,
    assistant_owner text    NOT NULL,
    variables       json    NOT NULL,
    idempotency_key text,             -- of the request, for a day
    request         text    NOT NULL, -- a hash of it
    state           text    NOT NULL, -- queued, ringing, answered, ended
    end_reason      text    NOT NULL,
    carrier_call    text    NOT NULL, -- the carrier's id, empty until it is known
    asked_at        datetime,         -- when the carrier was asked for it: from then on it may have it
    attempts        bigint  NOT NULL,
    next_at         datetime,         -- when a process looks after it, null: never
    created_at      datetime NOT NULL,
    ended_at        datetime
);
CREATE UNIQUE INDEX dials_by_key ON dials (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX dials_open_thread ON dials (thread_id) WHERE state IN ('queued', 'ringing');
-- A carrier's list of calls tells by the numbers which call is which.
CREATE UNIQUE INDEX dials_open_number ON dials (line, number) WHERE state IN ('queued', 'ringing');
CREATE INDEX dials_by_thread ON dials (thread_id);
CREATE INDEX dials_due ON dials (next_at) WHERE next_at IS NOT NULL;
