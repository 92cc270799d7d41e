-- +goose Up

-- An upstream leg is one session that a voice call has at the upstream: a call
-- whose session is renewed has several, one after the other. A row outlives its
-- thread until the session is known to be hung up, so it refers to no other table.
CREATE TABLE upstream_legs (
    call_id     text        NOT NULL,
    -- 1 for the first session of the call, larger for each that follows
    generation  bigint      NOT NULL,
    thread_id   text        NOT NULL,
    -- the driver's name, and its id of the session
    upstream    text        NOT NULL,
    upstream_id text        NOT NULL,
    instance    text        NOT NULL,
    started_at  datetime NOT NULL,
    ended_at    datetime,
    reason      text        NOT NULL,
    -- when the upstream said that the session is over
    hung_up_at  datetime,
    -- how often somebody who was not the call has tried to hang it up, and when
    -- that may be tried again
    attempts    bigint      NOT NULL,
    next_try_at datetime,
    PRIMARY KEY (call_id, generation)
);
CREATE INDEX upstream_legs_open ON upstream_legs (upstream) WHERE hung_up_at IS NULL;
CREATE INDEX upstream_legs_by_thread ON upstream_legs (thread_id);

INSERT INTO upstream_legs (
    call_id, generation, thread_id, upstream, upstream_id, instance, started_at, ended_at, reason, hung_up_at, attempts
)
SELECT id, 1, thread_id, upstream, upstream_call_id, instance, started_at, ended_at, end_reason, ended_at, 0
FROM calls WHERE upstream_call_id <> '';

-- +goose Down
DROP TABLE upstream_legs;
