-- SaveCall is idempotent, as are SaveToolCall and SaveResponse. They change nothing if
-- the id belongs to another thread, and fail if the thread belongs to another owner
-- (thread_id is NULL). A call that has ended keeps its first end, and every call its assistant and caller. A new call follows all calls of its thread, whose row
-- the caller has locked. A response that has finished stays so. A session's row keeps the longest time that was told or
-- estimated, until the session itself says at its end how long it was.
-- name: SaveCall :execrows
INSERT INTO calls (
    id, thread_id, upstream, upstream_call_id, model, voice, started_at, ready_at, ended_at, end_reason,
    turns, interruptions, replayed, instance, assistant_id, assistant_owner, extraction, client, line,
    caller, direction, place
) VALUES (
    @id, (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner),
    @upstream, @upstream_call_id, @model, @voice, @started_at, @ready_at, @ended_at, @end_reason,
    @turns, @interruptions, @replayed, @instance, @assistant_id, @assistant_owner, @extraction, @client, @line,
    @caller, @direction,
    (SELECT CAST(coalesce(max(c.place), 0) + 1 AS bigint) FROM calls AS c WHERE c.thread_id = @thread_id)
)
ON CONFLICT (id) DO UPDATE SET
    upstream = excluded.upstream, upstream_call_id = excluded.upstream_call_id, model = excluded.model,
    voice = excluded.voice, ready_at = excluded.ready_at,
    ended_at = COALESCE(calls.ended_at, excluded.ended_at),
    end_reason = CASE WHEN calls.ended_at IS NULL THEN excluded.end_reason ELSE calls.end_reason END,
    turns = excluded.turns, interruptions = excluded.interruptions, replayed = excluded.replayed,
    instance = excluded.instance
WHERE calls.thread_id = excluded.thread_id;

-- name: GetLiveCall :one
SELECT c.* FROM calls AS c
JOIN threads AS t ON t.id = c.thread_id
WHERE c.thread_id = @thread_id AND t.owner = @owner AND c.ended_at IS NULL;

-- name: SaveToolCall :execrows
INSERT INTO tool_calls (
    id, thread_id, message_id, call_id, tool_call_id, name, executor, server, status, input, output, error,
    instance, started_at, finished_at
) VALUES (
    @id, (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner),
    @message_id, @call_id, @tool_call_id, @name, @executor, @server, @status, @input, @output, @error,
    @instance, @started_at, @finished_at
)
ON CONFLICT (id) DO UPDATE SET
    message_id = excluded.message_id, call_id = excluded.call_id, tool_call_id = excluded.tool_call_id,
    name = excluded.name, executor = excluded.executor, server = excluded.server, status = excluded.status,
    input = excluded.input, output = excluded.output, error = excluded.error, instance = excluded.instance,
    finished_at = excluded.finished_at
WHERE tool_calls.thread_id = excluded.thread_id;

-- name: SaveResponse :execrows
INSERT INTO responses (
    id, thread_id, kind, call_id, message_id, upstream, upstream_id, model, status, status_reason,
    input_tokens, output_tokens, cached_tokens, input_audio_tokens, output_audio_tokens, raw_usage,
    cost_usd, estimated, answer_ms, first_token_ms, instance, created_at, finished_at
) VALUES (
    @id, (SELECT t.id FROM threads AS t WHERE t.id = @thread_id AND t.owner = @owner),
    @kind, @call_id, @message_id, @upstream, @upstream_id, @model, @status, @status_reason,
    @input_tokens, @output_tokens, @cached_tokens, @input_audio_tokens, @output_audio_tokens, @raw_usage,
    @cost_usd, @estimated, @answer_ms, @first_token_ms, @instance, @created_at, @finished_at
)
ON CONFLICT (id) DO UPDATE SET
    call_id = excluded.call_id, message_id = excluded.message_id, upstream = excluded.upstream, upstream_id = excluded.upstream_id,
    model = excluded.model,
    status = CASE WHEN excluded.finished_at IS NULL AND responses.finished_at IS NOT NULL
        THEN responses.status ELSE excluded.status END,
    status_reason = excluded.status_reason,
    input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
    cached_tokens = excluded.cached_tokens, input_audio_tokens = excluded.input_audio_tokens,
    output_audio_tokens = excluded.output_audio_tokens,
    raw_usage = CASE WHEN excluded.kind = 'session'
        AND NOT (responses.estimated AND NOT excluded.estimated AND excluded.finished_at IS NOT NULL)
        AND CAST(responses.raw_usage ->> 'seconds' AS numeric) > CAST(COALESCE(excluded.raw_usage ->> 'seconds', '0') AS numeric)
        THEN responses.raw_usage ELSE excluded.raw_usage END,
    cost_usd = CASE WHEN excluded.kind = 'session'
        AND NOT (responses.estimated AND NOT excluded.estimated AND excluded.finished_at IS NOT NULL)
        AND CAST(responses.raw_usage ->> 'seconds' AS numeric) > CAST(COALESCE(excluded.raw_usage ->> 'seconds', '0') AS numeric)
        THEN responses.cost_usd ELSE excluded.cost_usd END,
    estimated = CASE WHEN excluded.kind = 'session'
        AND NOT (responses.estimated AND NOT excluded.estimated AND excluded.finished_at IS NOT NULL)
        AND CAST(responses.raw_usage ->> 'seconds' AS numeric) > CAST(COALESCE(excluded.raw_usage ->> 'seconds', '0') AS numeric)
        THEN responses.estimated ELSE excluded.estimated END,
    answer_ms = excluded.answer_ms, first_token_ms = excluded.first_token_ms,
    instance = excluded.instance, finished_at = COALESCE(excluded.finished_at, responses.finished_at)
WHERE responses.thread_id = excluded.thread_id;

-- GetToolCall returns the latest call with this id, which comes from the model.
-- name: GetToolCall :one
SELECT c.* FROM tool_calls AS c
JOIN threads AS t ON t.id = c.thread_id
WHERE c.thread_id = @thread_id AND t.owner = @owner AND c.tool_call_id = @tool_call_id
ORDER BY c.started_at DESC, c.id DESC
LIMIT 1;

-- name: ListWaitingToolCalls :many
SELECT c.* FROM tool_calls AS c
JOIN threads AS t ON t.id = c.thread_id
WHERE c.thread_id = @thread_id AND t.owner = @owner AND c.status = 'waiting'
ORDER BY c.started_at, c.id;

-- name: GetCall :one
SELECT c.* FROM calls AS c
JOIN threads AS t ON t.id = c.thread_id
WHERE c.id = @id AND t.owner = @owner;

-- LastThreadOfCaller finds the thread of the latest call between a line and a number, if something has changed in it
-- since then.
-- name: LastThreadOfCaller :one
SELECT c.thread_id FROM calls AS c
JOIN threads AS t ON t.id = c.thread_id
WHERE t.owner = @owner AND c.line = @line AND c.caller = @caller AND c.line <> '' AND t.updated_at > @since
ORDER BY c.started_at DESC, c.id DESC LIMIT 1;

-- CountLineCalls counts the live calls of a line, and those of a number among them, in other processes.
-- name: CountLineCalls :one
SELECT count(*) AS of_line, count(CASE WHEN c.caller = @caller THEN 1 END) AS of_caller FROM calls AS c
JOIN threads AS t ON t.id = c.thread_id
WHERE t.owner = @owner AND c.line = @line AND c.ended_at IS NULL AND c.instance <> @instance;
