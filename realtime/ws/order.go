package ws

import "voicebridge/realtime"

// Order returns which item comes before that of an event. Some upstreams name one that they never announced; then it is
// the one that was announced last. One goroutine calls it, with each event in order.
func (c *Conn) Order(ev realtime.Event) (before string, known bool) {
	id := ev.ItemID
	if ev.Item != nil {
		id = text(realtime.Member(ev.Item, "id"))
	}
	before, known = ev.PreviousItemID, ev.HasPrevious
	if known && before != "" && !c.announced[before] {
		if before = c.newest; before == id {
			before = c.previous
		}
	}
	switch ev.Type {
	case realtime.TypeItemAdded, realtime.TypeInputCommitted, realtime.TypeOutputItemAdded:
		if id != "" && !c.announced[id] {
			c.announced[id] = true
			c.previous, c.newest = c.newest, id
		}
	}
	return before, known
}
