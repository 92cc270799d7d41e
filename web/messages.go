package web

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/web/access"
	"voicebridge/web/input"
)

// messages serves the route about a thread's messages.
type messages struct {
	store messageStore
	// proxies are Config.TrustedProxies.
	proxies []netip.Prefix
}

func (h *messages) routes(r router) { r.GET("/api/threads/:id/messages", onThread(h.list), r.user) }

// messageReader reads threads and their messages.
type messageReader interface {
	threadReader
	Message(ctx context.Context, key thread.Key, id string) (thread.Message, error)
}

// messageStore is what the routes about messages need of the store.
type messageStore interface {
	Message(ctx context.Context, key thread.Key, id string) (thread.Message, error)
	Messages(ctx context.Context, key thread.Key, after int64, limit int) ([]thread.Message, error)
	LastSeq(ctx context.Context, key thread.Key) (int64, error)
}

type messagePage struct {
	Messages []thread.Message `json:"messages"`
	// NextAfter is the number of the last message of the page, shown or not, from which to continue;
	// null if there was none.
	NextAfter *int64 `json:"next_after"`
}

func (h *messages) list(c echo.Context, key thread.Key) error {
	after, err := input.Int(c, "after", 0, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	limit, err := input.Int(c, "limit", 100, 1, 1000)
	if err != nil {
		return err
	}
	current, err := input.Bool(c, "current")
	if err != nil {
		return err
	}
	messages, err := h.store.Messages(c.Request().Context(), key, after, int(limit))
	if err != nil {
		return orThread(err)
	}
	page := messagePage{Messages: messages}
	if n := len(messages); n > 0 {
		page.NextAfter = new(messages[n-1].Seq)
	}
	if current {
		page.Messages = slices.DeleteFunc(messages, func(m thread.Message) bool { return m.IsDiscarded() })
	}
	if page.Messages == nil {
		page.Messages = []thread.Message{}
	}
	here := c.Scheme() + "://" + c.Request().Host + access.Prefix(c.Request(), h.proxies)
	for i := range page.Messages {
		for j := range page.Messages[i].Parts {
			absolute(&page.Messages[i].Parts[j], key.Thread, here)
		}
	}
	return c.JSON(http.StatusOK, page)
}

// absolute makes the address of a thread's image absolute: outside of a page, as in the AI SDK's convertToModelMessages, a
// path is no address.
func absolute(p *thread.Part, thread, here string) {
	var fields map[string]json.RawMessage
	var path string
	if _, ok := p.ImageID(thread); !ok || json.Unmarshal(p.Raw, &fields) != nil || json.Unmarshal(fields["url"], &path) != nil {
		return
	}
	fields["url"] = toolkit.Encode(here + path)
	p.Raw = toolkit.Encode(fields)
}

// relative returns an address that absolute has made as it was, and others unchanged.
func relative(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return address
	}
	if i := strings.Index(u.EscapedPath(), "/api/threads/"); i >= 0 {
		return u.EscapedPath()[i:]
	}
	return address
}
