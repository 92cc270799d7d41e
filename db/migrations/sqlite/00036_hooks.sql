-- +goose Up

-- A hook is an address to which events are posted.
CREATE TABLE hooks (
    id         text        NOT NULL PRIMARY KEY,
    -- empty for those of the settings, which get the events of all owners
    owner      text        NOT NULL,
    url        text        NOT NULL,
    -- patterns of types, with a space before and after each
    events     text        NOT NULL,
    enabled    boolean     NOT NULL,
    -- why it was switched off, when its owner has not done it
    off_reason text        NOT NULL,
    -- signs what is posted; empty for those of the settings, whose secrets are in the environment
    secret     text        NOT NULL,
    created_at datetime    NOT NULL
);
CREATE INDEX hooks_by_owner ON hooks (owner, created_at);

-- A delivery is an event that a hook gets. The transaction that causes the event writes it.
CREATE TABLE hook_deliveries (
    hook_id     text        NOT NULL REFERENCES hooks (id) ON DELETE CASCADE,
    -- webhook-id: that of the event, so an event that is told again is still one delivery
    id          text        NOT NULL,
    -- empty only for a test
    thread_id   text        REFERENCES threads (id) ON DELETE CASCADE,
    type        text        NOT NULL,
    -- exactly what is posted
    body        text        NOT NULL,
    -- waiting, delivered, failed
    state       text        NOT NULL,
    attempts    bigint      NOT NULL,
    -- how often it has failed since it was begun, which says when the next attempt is
    failures    bigint      NOT NULL,
    -- the process that is sending it
    instance    text        NOT NULL,
    -- the answer to the last attempt; 0 if there was none, for the reason last_error
    last_status bigint      NOT NULL,
    last_error  text        NOT NULL,
    created_at  datetime    NOT NULL,
    begun_at    datetime   ,
    next_at     datetime   ,
    finished_at datetime   ,
    PRIMARY KEY (hook_id, id)
);
CREATE INDEX hook_deliveries_due ON hook_deliveries (hook_id, state, next_at);
CREATE INDEX hook_deliveries_sending ON hook_deliveries (instance) WHERE instance <> '';
CREATE INDEX hook_deliveries_by_time ON hook_deliveries (hook_id, created_at, id);
CREATE INDEX hook_deliveries_by_thread ON hook_deliveries (thread_id);
CREATE INDEX hook_deliveries_old ON hook_deliveries (created_at);
