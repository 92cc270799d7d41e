package realtimetest

import "context"

// conversation is what a session knows of what was said.
type conversation struct {
	*wire

	order []string
	items map[string]*item
	calls map[string]bool // by call_id: whether the output is there
}

// item is one of the conversation.
type item struct {
	role  string
	sound int // samples that were sent
}

// before returns the id of the last item, nil if there is none.
func (s *conversation) before() any {
	if len(s.order) == 0 {
		return nil
	}
	return s.order[len(s.order)-1]
}

// announce adds an item at the end.
func (s *conversation) announce(ctx context.Context, it tree, before any) {
	id := it["id"].(string)
	role, _ := it["role"].(string)
	s.order, s.items[id] = append(s.order, id), &item{role: role}
	s.send(ctx, "conversation.item.added", tree{"previous_item_id": before, "item": it})
}
