package toolkit

import (
	"encoding/json"
	"sync"
)

// maxCached is how many bytes of schemas are kept compiled. The server's own take about 15 KiB.
const maxCached = 4 << 20

// compiled holds the schemas of the server's tools. A registry is built for each call of a
// user, and compiling them again each time would be most of that work.
var compiled schemaCache

// schemaCache holds checkers by the text of their schemas. The zero value is empty.
type schemaCache struct {
	mu       sync.Mutex
	checkers map[string]*checker
	size     int // bytes of the keys
}

// checker returns the checker for a schema, a new one if there is none yet. Refusals are not kept.
func (c *schemaCache) checker(raw json.RawMessage) (*checker, error) {
	c.mu.Lock()
	found, ok := c.checkers[string(raw)]
	c.mu.Unlock()
	if ok {
		return found, nil
	}
	made, err := newChecker(raw)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.checkers == nil || c.size+len(raw) > maxCached {
		c.checkers, c.size = map[string]*checker{}, 0
	}
	if _, ok := c.checkers[string(raw)]; !ok {
		c.checkers[string(raw)] = made
		c.size += len(raw)
	}
	return made, nil
}
