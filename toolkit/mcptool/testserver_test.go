package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
)

var must = testkit.Must

// roleVariable makes the test binary act as a stdio server.
const roleVariable = "MCPTOOL_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		goleak.VerifyTestMain(m)
	case "server":
		serveStdio()
	case "stubborn": // neither reads nor ends by itself
		serveStubborn()
	case "parent": // a server whose child holds stdout and stderr open, and the pipe of the test
		args := []string{"sh", "-c", `trap "" TERM; exec sleep 600 3>"$PIPE"`}
		if os.Getenv("SESSION") != "" {
			args = append([]string{"setsid", "--fork"}, args...)
		}
		child := exec.Command(args[0], args[1:]...)
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			panic(err)
		}
		serveStdio()
	case "program": // one like ours, with such a server
		servers := Config{Servers: map[string]Server{"s": stdio("parent", map[string]string{"PIPE": os.Getenv("PIPE"), "SESSION": os.Getenv("SESSION")})}}
		s, err := Open(servers, Options{ConnectTimeout: time.Hour})
		if err != nil {
			panic(err)
		}
		_ = s.Run(context.Background())
	case "silent":
		serveLines(map[string]string{
			"initialize": `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`,
			"tools/list": `{"tools":[{"name":"old","inputSchema":{"type":"object"}}]}`,
			"tools/call": `{"content":[{"type":"text","text":"still here"}]}`,
		})
	case "strict": // ends if its first request is another one
		serveLines(map[string]string{
			"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"strict","version":"1"}}`,
			"tools/list": `{"tools":[{"name":"strict","inputSchema":{"type":"object"}}]}`,
		})
	case "talkative": // logs on stdout
		fmt.Print("\xef\xbb\xbfWelcome to this server!\r\n\n[INFO] starting\n[dotenv@17.2.3] injecting env (2) from .env\n{\"level\":30,\"msg\":\"ready\"}\n{not json\n\xff\n", strings.Repeat("x", 100_000), "\n")
		serveStdio()
	case "tasks":
		serveLines(map[string]string{
			"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"tasks","version":"1"}}`,
			"tools/list": `{"tools":[{"name":"long","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},` +
				`{"name":"either","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},{"name":"","inputSchema":{"type":"object"}},{"name":"plain","inputSchema":{"type":"object"}}]}`,
			"tools/call": `{"resultType":"input_required","requestState":"half done","content":[]}`,
		})
	case "host":
		serveHost()
	case "quits":
		fmt.Fprintln(os.Stderr, "no config file")
		os.Exit(3)
	default:
		panic("unknown role")
	}
}

func serveStdio() {
	for line := range strings.SplitSeq(os.Getenv("STDERR"), "|") {
		fmt.Fprintln(os.Stderr, line)
	}
	if err := newTestServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func serveStubborn() {
	ignoreTerm()
	time.Sleep(time.Hour)
}

// serveLines answers the given methods, and stays silent on all others. Some servers end at them.
func serveLines(answers map[string]string) {
	strict := os.Getenv(roleVariable) == "strict"
	decoder := json.NewDecoder(os.Stdin)
	for {
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := decoder.Decode(&request); err != nil {
			return
		}
		if answer, ok := answers[request.Method]; ok {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", request.ID, answer)
		} else if strict && request.ID != nil {
			os.Exit(1)
		}
	}
}

type handler = func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error)

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// newTestServer is a real server with a tool for each behaviour.
func newTestServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	release := make(chan struct{}, 16)
	add := func(name, schema string, h handler) {
		server.AddTool(&mcp.Tool{Name: name, Description: "Does " + name, InputSchema: json.RawMessage(schema)}, h)
	}
	object := `{"type":"object"}`
	add("echo", `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`,
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in struct{ Text string }
			if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
				return nil, err
			}
			return text(in.Text), nil
		})
	add("environment", object, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		directory, err := os.Getwd()
		return &mcp.CallToolResult{StructuredContent: map[string]any{"env": os.Environ(), "cwd": directory, "pid": os.Getpid()}}, err
	})
	add("whoami", object, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(r.Extra.Header.Get("X-User")), nil
	})
	add("progress", object, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 3 {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Message: fmt.Sprintf("step %d", i+1), Progress: float64(i + 1), Total: 4,
			})
			if err != nil {
				return nil, err
			}
		}
		select {
		case <-release:
			return text("progressed"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	add("release", object, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		release <- struct{}{}
		return text("released"), nil
	})
	add("fail", object, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result := text("the file is locked")
		result.IsError = true
		return result, nil
	})
	add("refuse", object, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("not today")
	})
	add("slow", object, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Message: "begun"})
		<-ctx.Done()
		return nil, ctx.Err()
	})
	add("die", object, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		os.Exit(7)
		return nil, nil
	})
	add("large", object, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(strings.Repeat("ä", 100_000)), nil
	})
	add("too_large", object, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(strings.Repeat("x", maxMessage+1)), nil
	})
	add("many_values", object, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: map[string]any{"answer": make([]int, toolkit.MaxValues)}, Content: []mcp.Content{}}, nil
	})
	add("structured", object, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: map[string]any{"answer": 42}, Content: []mcp.Content{}}, nil
	})
	add("mixed", object, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: "a picture:"}, &mcp.ImageContent{MIMEType: "image/png", Data: []byte{1, 2, 3}},
			&mcp.ResourceLink{URI: "file:///a.txt", Name: "a"},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///b.txt", Text: "inside"}},
			&mcp.EmbeddedResource{}, // without its resource, which the protocol requires
		}}, nil
	})
	add("pictures", `{"type":"object","properties":{"sizes":{"type":"array","items":{"type":"integer"}},"failed":{"type":"boolean"}}}`,
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in struct {
				Sizes  []int
				Failed bool
			}
			if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
				return nil, err
			}
			out := text("pictures:")
			for _, size := range in.Sizes {
				out.Content = append(out.Content, &mcp.ImageContent{MIMEType: "image/png", Data: bytes.Repeat([]byte("p"), size)})
			}
			out.Content = append(out.Content, &mcp.AudioContent{MIMEType: "audio/x-wav", Data: []byte("sound")},
				&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///shot.png", MIMEType: "image/png", Blob: []byte("blob")}},
				&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a.pdf", MIMEType: "application/pdf", Blob: []byte("%PDF")}})
			out.StructuredContent = map[string]any{"content": []any{map[string]any{"data": []byte("sound")}}, "more": "sound"}
			out.IsError = in.Failed
			return out, nil
		})
	add("nothing", object, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{}}, nil
	})
	add("grow", object, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		add("grown", object, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("new"), nil })
		return text("grew"), nil
	})
	echoName := func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(r.Params.Name), nil
	}
	for _, name := range hostileNames {
		add(name, object, echoName)
	}
	add("recursive", `{"type":"object","properties":{"child":{"$ref":"#"}},"required":["child"]}`, echoName)
	add("big_schema", `{"type":"object","description":"`+strings.Repeat("x", maxSchema)+`"}`, echoName)
	server.AddTool(&mcp.Tool{Name: "wordy", Description: strings.Repeat("ü", 2000), InputSchema: json.RawMessage(object)}, echoName)
	return server
}

// hostileNames are names that models' APIs refuse, or that look alike after cleaning.
var hostileNames = []string{
	"with space", "dot.ted", "dot_ted", "ünïcode", "a/b", "<script>", "new\nline", "__proto__",
	strings.Repeat("long", 20), strings.Repeat("long", 20) + "er",
}
