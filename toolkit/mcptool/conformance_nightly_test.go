//go:build nightly

package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"voicebridge/toolkit"
	"voicebridge/toolkit/mcptool/signin"
	"voicebridge/toolkit/mcptool/signin/signintest"
)

// required are the scenarios of the public suite that the revision 2026-07-28 requires of a client, and those of the revisions
// before it. docs/tools.md says which others there are, and why they are not claimed.
var required = []string{
	"initialize", "tools_call", "sse-retry", "request-metadata", "http-standard-headers", "http-custom-headers",
	"http-invalid-tool-headers", "json-schema-ref-no-deref", "json-schema-2020-12-preservation", "auth/metadata-default",
	"auth/metadata-var1", "auth/metadata-var2", "auth/metadata-var3", "auth/scope-from-www-authenticate",
	"auth/scope-from-scopes-supported", "auth/scope-omitted-when-undefined", "auth/scope-step-up", "auth/scope-retry-limit",
	"auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post", "auth/token-endpoint-auth-none", "auth/pre-registration",
	"auth/resource-mismatch", "auth/offline-access-scope", "auth/offline-access-not-supported",
	"auth/authorization-server-migration", "auth/iss-supported", "auth/iss-not-advertised", "auth/iss-supported-missing",
	"auth/iss-wrong-issuer", "auth/iss-unexpected", "auth/iss-normalized", "auth/metadata-issuer-mismatch",
}

// TestConformance runs the public suite of the protocol against this package (github.com/modelcontextprotocol/conformance).
func TestConformance(t *testing.T) {
	t.Parallel()
	folder, err := filepath.Abs("testdata/conformance")
	must(t, err)
	run := func(env []string, name string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(nil, "npm", "ci", "--no-audit", "--no-fund"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	node := "node"
	if found, _ := filepath.Glob(filepath.Join(folder, "node_modules", "node-linux-*", "bin", "node")); len(found) > 0 {
		node = found[0]
	}
	for _, scenario := range required {
		t.Run(scenario, func(t *testing.T) {
			out, err := run([]string{roleVariable + "=conformance"}, node, "node_modules/@modelcontextprotocol/conformance/dist/index.js",
				"client", "--command", os.Args[0], "--scenario", scenario, "--output-dir", t.TempDir(), "--verbose")
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

func init() { //nolint:gochecknoinits // the suite starts the test's own program
	if os.Getenv(roleVariable) == "conformance" {
		if err := conform(os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// conform is a client of the suite: it signs in where that is asked for, and calls each tool.
func conform(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	var given struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &given)
	server := Server{Type: TypeHTTP, URL: address, ClientID: given.ID, ClientSecret: given.Secret}
	if strings.HasPrefix(os.Getenv("MCP_CONFORMANCE_SCENARIO"), "auth/") {
		server.Auth = AuthOAuth
	}
	desk, err := signin.New(signin.Config{
		Store: signintest.NewMemory(), Secret: "a secret", Guarded: http.DefaultTransport,
		NotFound: func(err error) bool { return errors.Is(err, signintest.ErrNone) },
	})
	if err != nil {
		return err
	}
	s, err := Open(Config{Servers: map[string]Server{"s": server}}, Options{SignIn: desk})
	if err != nil {
		return err
	}
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	<-s.Settled()
	for range 3 {
		needed, err := callAll(ctx, s)
		if err != nil {
			return err
		}
		if !needed {
			break
		}
		if err := conformSignIn(ctx, s, desk); err != nil {
			return err
		}
	}
	return errors.Join(s.Close(), <-ran)
}

// callAll calls each tool, and reports whether one wants another sign-in.
func callAll(ctx context.Context, s *Servers) (needed bool, err error) {
	entries := slices.Concat(s.Tools(), s.ToolsOf(ctx, "ann", func(string) bool { return true }))
	var wanted struct {
		Calls []struct {
			Name      string
			Arguments json.RawMessage
		} `json:"toolCalls"`
	}
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &wanted)
	for _, e := range entries {
		d := e.Tool.Definition()
		var schema struct {
			Properties map[string]struct{ Type string }
		}
		if err := json.Unmarshal(d.Parameters, &schema); err != nil {
			return false, err
		}
		arguments := map[string]any{}
		for name, p := range schema.Properties {
			switch p.Type {
			case "number", "integer":
				arguments[name] = 5
			case "boolean":
				arguments[name] = true
			case "string":
				arguments[name] = "text"
			case "object": // the schema to send back is the largest
				arguments[name] = slices.MaxFunc(entries, func(a, b toolkit.Entry) int {
					return len(a.Tool.Definition().Parameters) - len(b.Tool.Definition().Parameters)
				}).Tool.Definition().Parameters
			}
		}
		text := string(toolkit.Encode(arguments))
		for _, one := range wanted.Calls {
			if exposedName("s", one.Name) == d.Name {
				text = string(one.Arguments)
			}
		}
		call := toolkit.Call{Name: d.Name, Owner: "ann", Arguments: text}
		for c, err := range e.Tool.Call(ctx, call) {
			fmt.Fprintln(os.Stderr, d.Name, c.Result, err)
			needed = needed || c.Result != nil && c.Result.SignIn != ""
		}
	}
	return needed, nil
}

// conformSignIn signs in as a browser would.
func conformSignIn(ctx context.Context, s *Servers, desk *signin.Desk) error {
	const redirect = "http://127.0.0.1:8080/api/mcp/callback"
	target, _ := s.SignInServer("s")
	begun, err := desk.Begin(ctx, "ann", target, redirect)
	if err != nil {
		return err
	}
	var back signin.Return
	client := &http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if !strings.HasPrefix(r.URL.String(), redirect) {
			return nil
		}
		q := r.URL.Query()
		back = signin.Return{State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error")}
		return http.ErrUseLastResponse
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, begun.AuthorizeURL, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	kept := func(string) string { return begun.Browser }
	if _, _, err := desk.Finish(ctx, back, kept, func(string) bool { return true }, s.SignInServer); err != nil {
		return err
	}
	s.SignedIn("ann", "s")
	return nil
}
