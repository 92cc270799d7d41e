package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence/export"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/web/access"
	"voicebridge/web/problem"
)

// messages serves the routes about a thread's messages.
type messages struct{ *api }

func (h messages) routes(r router) {
	r.explain = orThread
	route(r, "GET /api/threads/:id/messages", h.list)
	r.GET("/api/threads/:id/export", onThread(h.export), r.user)
}

type messagePage struct {
	Messages []thread.Message `json:"messages"`
	// NextAfter is the number of the last message of the page, shown or not, from which to continue;
	// null if there was none.
	NextAfter *int64 `json:"next_after"`
}

type someMessages struct {
	Key     thread.Key
	After   int64 `query:"after" range:"0,0,9223372036854775807"`
	Limit   int64 `query:"limit" range:"100,1,1000"`
	Current bool  `query:"current"`
}

func (h messages) list(ctx context.Context, who caller, in someMessages) (page messagePage, err error) {
	messages, err := h.Store.Messages(ctx, in.Key, in.After, int(in.Limit))
	page.Messages = messages
	if n := len(messages); n > 0 {
		page.NextAfter = new(messages[n-1].Seq)
	}
	if in.Current {
		page.Messages = slices.DeleteFunc(messages, func(m thread.Message) bool { return m.IsDiscarded() })
	}
	if page.Messages == nil {
		page.Messages = []thread.Message{}
	}
	here := who.c.Scheme() + "://" + who.c.Request().Host + access.Prefix(who.c.Request(), h.TrustedProxies)
	for i := range page.Messages {
		for j := range page.Messages[i].Parts {
			absolute(&page.Messages[i].Parts[j], in.Key.Thread, here)
		}
	}
	return page, err
}

// absolute makes the address of a thread's image absolute: outside of a page, as in the AI SDK's
// convertToModelMessages, a path is no address.
func absolute(p *thread.Part, thread, here string) {
	var fields map[string]json.RawMessage
	var path string
	if _, ok := p.ImageID(thread); !ok || json.Unmarshal(p.Raw, &fields) != nil {
		return
	}
	if json.Unmarshal(fields["url"], &path) != nil {
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

// export returns a whole thread as a file.
func (h messages) export(c echo.Context, key thread.Key) error {
	format := export.Markdown
	if name := c.QueryParam("format"); name != "" {
		var ok bool
		if format, ok = export.FormatOf(name); !ok {
			return problem.Invalid("format", "format must be markdown or json.")
		}
	}
	ctx := c.Request().Context()
	thread, err := h.Store.Thread(ctx, key)
	if err != nil {
		return orThread(err)
	}
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, format.MediaType())
	header.Set(echo.HeaderContentDisposition,
		fmt.Sprintf(`attachment; filename="thread-%s.%s"`, thread.ID, format.Extension()))
	c.Response().WriteHeader(http.StatusOK)
	if err := export.Write(c.Response(), format, thread, export.Messages(ctx, h.Store, key)); err != nil {
		// Half a file must not look complete.
		h.Logger.Warn("export interrupted", "thread_id", key.Thread, "error", err, "request_id", requestID(c))
		panic(http.ErrAbortHandler)
	}
	return nil
}
