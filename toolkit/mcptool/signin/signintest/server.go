package signintest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// NewServer starts an MCP server for a test whose one tool, whoami, says for which user of the authority it works. It returns the address, to
// which nobody comes without a token.
func (a *Authority) NewServer(t testing.TB) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "post", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "whoami", Description: "Says who the user is", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "You are " + r.Extra.Header.Get("X-User")}}}, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.Protect(handler, "/.well-known/oauth-protected-resource/mcp").ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		listening.CloseClientConnections()
		listening.Close()
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})
	a.Resource = listening.URL + "/mcp"
	return a.Resource
}
