-- LogEvent writes an event in the transaction that causes it. NumberEvents follows.
-- name: LogEvent :exec
INSERT INTO unnumbered_events (mark, owner, thread_id, type, data, at) VALUES (@mark, @owner, @thread_id, @type, @data, @at);

-- NumberEvents gives the events of transactions that have ended their numbers. One transaction at a time may do that: a
-- number becomes visible only after all smaller ones.
-- name: NumberEvents :execrows
WITH moved AS (DELETE FROM unnumbered_events RETURNING *)
INSERT INTO events (mark, owner, thread_id, type, data, at)
SELECT m.mark, m.owner, m.thread_id, m.type, m.data, m.at FROM moved AS m ORDER BY m.id;
