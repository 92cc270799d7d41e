package voicebridge_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
)

// attacks are what a stranger, a user, a tool or an upstream could try beyond web's table
// TestAttacks, each with the test that tries it, in the order of SECURITY.md.
var attacks = []struct{ what, in, test string }{
	// Access.
	{"strangers use the HTTP API: a table", "web", "TestAttacks"},
	{"routes that hold data are open", "web", "TestEveryRouteThatHoldsDataNeedsAuthentication"},
	{"a server off loopback has no authentication", "cmd/voicebridge/internal/config", "TestOffLoopbackNeedsAuthentication"},
	{"a proxy stands in front of a server without authentication", "web", "TestNoAuthenticationBehindAProxy"},
	{"short tokens and secrets are guessed", "web", "TestWeakSecretsStopTheStart"},
	{"tokens are guessed, from one address, IPv6 prefix or behind one proxy", "web", "TestWrongTokensAreLimited"},
	{"sign-ins are guessed", "web", "TestSignInRefuses"},
	{"a JWT is for another app, of another issuer, key or algorithm, or never expires", "web", "TestJWTClaims"},
	{"a JWT is signed with a symmetric key of the attacker's", "web", "TestJWTSecret"},
	{"a JWT is signed with a revoked key", "web", "TestJWKS"},
	{"unknown key ids hold up everyone", "web", "TestAnUnknownKeyHoldsUpNobody"},
	{"the name in a JWT instructs the model", "web/access", "TestNameIn"},
	{"session cookies and client secrets are forged", "web", "TestForgedTokensOpenNothing"},
	{"sockets and streams outlive what opened them", "web", "TestSocketsEndWithWhatOpenedThem"},
	{"a client secret opens other threads", "web", "TestSecretOpensCallsOnItsThread"},
	{"a page changes what its app's server has fixed", "web", "TestFixedSession"},
	{"settings hold secrets", "cmd/voicebridge/internal/config", "TestSecretsInTheFileAreRefused"},
	{"TLS is missing without a warning", "web", "TestWarnsWithoutTLS"},
	// Ownership.
	{"an owner asks for what another has, on every route", "web", "TestStrangersFindNothing"},
	{"an owner sends texts in a burst, or uses other models", "web", "TestRequests"},
	{"an owner stores too much", "web", "TestRequests"},
	{"an owner's sleeping programs delay another's", "toolkit/code", "TestOneOwnersPrograms"},
	{"an owner opens too many streams", "web", "TestRequests"},
	{"an owner opens too many sockets", "web", "TestRequests"},
	{"a small text becomes large once it is decoded", "web/input", "TestHostileShapes"},
	{"a message has millions of parts", "web", "TestRequests"},
	{"an owner sends many large bodies at once", "web/access", "TestByteLimit"},
	{"connections are left idle", "web", "TestIdleConnectionsAreBounded"},
	{"bodies arrive slowly", "web", "TestSlowBodyIsCutOff"},
	{"paths fill the log", "web", "TestLoggedPathsAreBounded"},
	{"requests between processes are forged, or sent again", "web", "TestPasses"},
	// Calls.
	{"an offer makes the server send packets to many addresses", "realtime/rtc", "TestManyCandidates"},
	{"an offer names private addresses", "realtime/rtc", "TestPublicAsksNoPrivateAddress"},
	{"an offer is malformed", "realtime/rtc", "TestBadOffer"},
	{"a browser sends forbidden events", "bridge/internal/session", "TestCalls"},
	{"a browser answers approval requests that do not exist", "web", "TestHostileMessagesOnTheSocket"},
	{"an event becomes large once it is decoded", "bridge/internal/leg", "TestManyValues"},
	{"an app sends frames that are not the conductor's", "web", "TestConductorHostileFrames"},
	// What tools may do.
	{"an MCP server reads the keys of this process", "toolkit/mcptool", "TestChildCannotReadOurEnvironment"},
	{"an MCP server inherits keys", "toolkit/mcptool", "TestChildEnvironment"},
	{"an MCP server changes its tools later", "toolkit/mcptool", "TestChangedTools"},
	{"it does so between two starts", "toolkit/mcptool", "TestPinsOutliveTheProcess"},
	{"an MCP server names and describes tools as it likes", "toolkit/mcptool", "TestHostileNamesAndDescriptions"},
	{"an MCP server answers endlessly", "toolkit/mcptool", "TestHTTPAnswersAreBounded"},
	{"an MCP server returns images that are broken, too large or too many", "toolkit/mcptool", "TestMedia"},
	{"a file claims to be an image", "persistence/pictures", "TestNewImage"},
	{"an MCP server redirects its headers elsewhere", "toolkit/mcptool", "TestHeadersGoToTheConfiguredHostOnly"},
	{"a misspelt entry of deny denies nothing", "cmd/voicebridge", "TestMisspeltTools"},
	{"a model writes to the outside unasked", "toolkit/webtools", "TestHTTPWrites"},
	{"a model reaches private addresses", "toolkit/webtools", "TestHostileURLs"},
	{"it does so by a redirect", "toolkit/webtools", "TestRedirectsToHostileURLs"},
	{"it does so by a name that changes", "toolkit/webtools", "TestRebinding"},
	{"a page's answer never ends", "toolkit/webtools", "TestEndlessBodies"},
	{"a program lifts its time limit", "toolkit/code", "TestEndlessPython"},
	{"a program uses other system calls", "toolkit/code", "TestPythonSystemCalls"},
	{"a program reads the host's files, or reaches its network", "toolkit/code", "TestPythonHasNoHost"},
	{"JavaScript reads the host's files, or reaches its network", "toolkit/code", "TestNoHostAccess"},
	{"JavaScript runs where it cannot be confined", "toolkit/code", "TestProbeWithoutFilter"},
	{"a program takes all memory", "toolkit/code", "TestGreedyJavaScript"},
	{"a program takes more memory than the engine counts", "toolkit/code", "TestJavaScriptKeepsItsMemory"},
	// Leftovers.
	{"what was deleted is still in the file", "persistence", "TestDeletedIsNotInTheFile"},
	{"secrets appear in records of tool calls", "toolkit", "TestMask"},
	{"the page runs foreign scripts", "web", "TestBuiltPageHasNoInlineScript"},
	{"the instructions for exposing it are wrong", "e2e", "TestExposeItSafely"},
}

// TestAttacksAreTried prints what is tried (go test -v), and fails when a test of the list is gone.
func TestAttacksAreTried(t *testing.T) {
	t.Parallel()
	known := map[string]map[string]bool{}
	for _, a := range attacks {
		if known[a.in] == nil {
			known[a.in] = testsIn(t, a.in)
		}
		t.Logf("%-70s %s.%s", a.what, a.in, a.test)
		if !known[a.in][a.test] {
			t.Errorf("%s: there is no %s in %s", a.what, a.test, a.in)
		}
	}
	t.Logf("%d attacks", len(attacks))
}

// testsIn returns the names of the tests of a folder.
func testsIn(t *testing.T, folder string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	entries, err := os.ReadDir(filepath.FromSlash(folder))
	testkit.Must(t, err)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, e.Name()), nil, parser.SkipObjectResolution)
		testkit.Must(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}
