package admission

import (
	"context"
	"maps"
	"slices"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
)

// ToolPins returns the pinned definitions of an MCP server's tools, by tool name.
func (s *Store) ToolPins(ctx context.Context, server string) (map[string]string, error) {
	rows, err := s.db.Read().ListToolPins(ctx, server)
	if err != nil {
		return nil, s.db.Fail("read tool pins", err)
	}
	pins := make(map[string]string, len(rows))
	for _, r := range rows {
		pins[r.Tool] = r.Definition
	}
	return pins, nil
}

// PinTools pins definitions of an MCP server's tools, by tool name, replacing earlier ones. An
// empty definition unpins its tool.
func (s *Store) PinTools(ctx context.Context, server string, definitions map[string]string) error {
	at := dbtype.At(s.db.Now())
	return s.db.Fail("pin tools", s.db.Write(ctx, func(q database.Queries) error {
		for _, tool := range slices.Sorted(maps.Keys(definitions)) {
			var err error
			if definition := definitions[tool]; definition == "" {
				err = q.DeleteToolPin(ctx, server, tool)
			} else {
				err = q.SaveToolPin(ctx,
					pgdb.SaveToolPinParams{Server: server, Tool: tool, Definition: definition, PinnedAt: at})
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}
