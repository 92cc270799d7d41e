-- +goose Up

-- Whose assistant it is, '' for the operator's: an id alone is anybody's who takes it.
ALTER TABLE threads ADD COLUMN assistant_owner text NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN assistant_owner text NOT NULL DEFAULT '';
-- What was meant so far is the owner's, else the one that was shared first. One that is younger than the last use was not meant.
UPDATE threads SET assistant_owner = coalesce(
    (SELECT a.owner FROM assistants AS a WHERE a.id = threads.assistant_id AND a.owner = threads.owner),
    (SELECT a.owner FROM assistants AS a WHERE a.id = threads.assistant_id AND a.shared AND a.created_at <= threads.updated_at
        ORDER BY a.created_at, a.owner LIMIT 1),
    '')
WHERE assistant_id <> '';
UPDATE calls SET assistant_owner = coalesce(
    (SELECT a.owner FROM assistants AS a JOIN threads AS t ON t.owner = a.owner WHERE a.id = calls.assistant_id AND t.id = calls.thread_id),
    (SELECT a.owner FROM assistants AS a WHERE a.id = calls.assistant_id AND a.shared AND a.created_at <= calls.started_at
        ORDER BY a.created_at, a.owner LIMIT 1),
    '')
WHERE assistant_id <> '';
CREATE INDEX threads_assistant ON threads (assistant_owner) WHERE assistant_owner <> '';
CREATE INDEX calls_assistant ON calls (assistant_owner) WHERE assistant_owner <> '';

CREATE INDEX assistants_shared_by_age ON assistants (created_at, owner, id) WHERE shared;

-- Of body, in bytes: copies count among what an owner stores.
ALTER TABLE hook_deliveries ADD COLUMN size bigint NOT NULL DEFAULT 0;
UPDATE hook_deliveries SET size = octet_length(body);
CREATE INDEX hook_deliveries_by_size ON hook_deliveries (hook_id, size);
