-- +goose Up

-- Drafts are what was added to messages that are still growing, piece by piece. When
-- a message is written as a whole, at the latest when it is finished, they go.
CREATE TABLE drafts (
    message_id text   NOT NULL,
    -- bytes of the message's last text before this piece
    start      bigint NOT NULL,
    text       text   NOT NULL,
    PRIMARY KEY (message_id, start)
);

-- +goose Down
DROP TABLE drafts;
