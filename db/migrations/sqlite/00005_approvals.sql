-- +goose Up

-- An approval is one question to the user whether a tool may run, and what came
-- of it.
CREATE TABLE approvals (
    -- that of the tool call's record
    id           text        NOT NULL PRIMARY KEY REFERENCES tool_calls (id) ON DELETE CASCADE,
    thread_id    text        NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    -- the model's id of the call
    tool_call_id text        NOT NULL,
    -- whoever answers has to know it
    nonce        text        NOT NULL,
    -- '' while it is open, then approved, denied, timeout, interrupted or
    -- process_ended
    outcome      text        NOT NULL,
    -- the owner who said yes or no, else empty
    answered_by  text        NOT NULL,
    instance     text        NOT NULL,
    asked_at     datetime    NOT NULL,
    expires_at   datetime    NOT NULL,
    answered_at  datetime
);
CREATE INDEX approvals_open ON approvals (thread_id) WHERE outcome = '';

-- +goose Down
DROP TABLE approvals;
