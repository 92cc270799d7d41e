package mcptool

import (
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"voicebridge/toolkit"
)

// progressBacklog is how many of a call's notifications wait for a slow consumer; older ones are
// dropped.
const progressBacklog = 16

// progressBoard passes progress notifications to their calls. The zero value is ready.
type progressBoard struct {
	mu    sync.Mutex
	last  uint64
	calls map[string]chan *mcp.ProgressNotificationParams
}

// open returns a token that is new on this connection, and a channel of what is reported for it
// until done is called.
func (b *progressBoard) open() (token string, reports <-chan *mcp.ProgressNotificationParams, done func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	token = strconv.FormatUint(b.last, 10)
	if b.calls == nil {
		b.calls = map[string]chan *mcp.ProgressNotificationParams{}
	}
	c := make(chan *mcp.ProgressNotificationParams, progressBacklog)
	b.calls[token] = c
	return token, c, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.calls, token)
	}
}

// deliver never blocks: the SDK reads the connection in the same goroutine. It ignores unknown
// tokens and empty texts.
func (b *progressBoard) deliver(p *mcp.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.calls[token]
	if !ok {
		return
	}
	for {
		select {
		case c <- p:
			return
		default:
		}
		select {
		case <-c:
		default:
		}
	}
}

// progressChunk returns a notification as a chunk. Without a total there is no percentage, only the
// message.
func progressChunk(p *mcp.ProgressNotificationParams) toolkit.Chunk {
	c := toolkit.Chunk{Message: p.Message}
	if p.Total > 0 {
		c.Percent = 100 * p.Progress / p.Total
	}
	c.Data = toolkit.Encode(struct {
		Status   string  `json:"status"`
		Message  string  `json:"message,omitempty"`
		Progress float64 `json:"progress"`
		Total    float64 `json:"total,omitempty"`
	}{"processing", p.Message, p.Progress, p.Total})
	return c
}
