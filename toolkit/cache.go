package toolkit

import (
	"encoding/json"
	"sync"
)

// maxCached limits the bytes of compiled schemas that are kept. The server's own take about 15 KiB.
const maxCached = 4 << 20

// compiled caches the schemas of the server's tools. A registry is built for each voice or text
// session, and compiling them again each time would be most of that work.
var compiled schemaCache

// schemaCache holds checkers by the text of their schemas. The zero value is empty.
type schemaCache struct {
	mu       sync.Mutex
	checkers map[string]*checker
	size     int // bytes of the keys
}

// compile returns the checker for a schema, with the schema for models.
func compile(raw json.RawMessage) (*checker, error) {
	made, err := newChecker(raw)
	if err != nil {
		return nil, err
	}
	made.parameters = forModels(raw)
	return made, nil
}

// checker returns the checker for a schema, compiling it if necessary. Invalid schemas are not
// cached.
func (c *schemaCache) checker(raw json.RawMessage) (*checker, error) {
	c.mu.Lock()
	found, ok := c.checkers[string(raw)]
	c.mu.Unlock()
	if ok {
		return found, nil
	}
	made, err := compile(raw)
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
