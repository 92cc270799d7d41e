-- +goose Up

-- so that the first message of a long queue is found without sorting it: the order of ListQueued
DROP INDEX queued_messages_waiting;
CREATE INDEX queued_messages_waiting ON queued_messages (
    thread_id, (CASE WHEN attempts > 0 THEN 0 ELSE 1 END), (CASE WHEN scheduled_at IS NULL THEN 0 ELSE 1 END), scheduled_at, position
) WHERE state <> 'sent';

-- so that the oldest of many sessions to hang up are found without sorting them
DROP INDEX upstream_legs_open;
CREATE INDEX upstream_legs_open ON upstream_legs (upstream, started_at) WHERE hung_up_at IS NULL;

-- so that what a process sends to one hook is found without reading what waits for that hook
DROP INDEX hook_deliveries_sending;
CREATE INDEX hook_deliveries_sending ON hook_deliveries (instance, hook_id) WHERE instance <> '';
