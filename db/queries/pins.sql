-- name: ListToolPins :many
SELECT * FROM tool_pins WHERE server = @server ORDER BY tool;

-- name: SaveToolPin :exec
INSERT INTO tool_pins (server, tool, definition, pinned_at) VALUES (@server, @tool, @definition, @pinned_at)
ON CONFLICT (server, tool) DO UPDATE SET definition = excluded.definition, pinned_at = excluded.pinned_at;

-- name: DeleteToolPin :exec
DELETE FROM tool_pins WHERE server = @server AND tool = @tool;
