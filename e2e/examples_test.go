package e2e

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

// TestExampleClient builds the Go client and makes a call with it.
func TestExampleClient(t *testing.T) {
	t.Parallel()
	client := filepath.Join(t.TempDir(), "client")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", client, "../examples/client").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := newRig(t, rigConfig{})
	out, err := command(t, client, nil, "-server", r.url, "-say", chartAndSay).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	testkit.Equal(t, string(out), "You: "+chartAndSay+"\nIt: I draw.\n(it used create_pie_chart)\nIt: "+chartAnswer+"\n", "it printed %q", out)
	r.quiet()
	testkit.Equal(t, r.untilEnded(t, 1), []string{"hangup"}, "calls ended")
	testkit.Equal(t, r.rows(t, "SELECT status FROM conversation_transcript WHERE text = '"+chartAnswer+"'"), []string{"completed"}, "the answer that it heard")
	// As a newcomer starts it: without a key or any setting, a simulator in the program itself answers.
	first := launch(t, environment(t), "serve", "--listen", "127.0.0.1:0")
	if out, err := command(t, client, nil, "-server", first.url, "-say", "Hello").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "You: Hello\nIt: ") {
		t.Errorf("without settings: it printed %q, %v", out, err)
	}
	if out, err := command(t, client, nil, "-server", r.url+"/nowhere").CombinedOutput(); err == nil || !strings.Contains(string(out), "404") {
		t.Errorf("a wrong address: %v, %s", err, out)
	}
}

// TestExampleApp builds the app, a program with tools of its own, and has it say something in both kinds of sessions.
func TestExampleApp(t *testing.T) {
	t.Parallel()
	app := filepath.Join(t.TempDir(), "app")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", app, "../examples/app").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := launch(t, environment(t), "serve", "--listen", "127.0.0.1:0")
	for _, tt := range []struct{ thing, speak, used, want string }{
		{"key", "-speak=false", "in the red drawer", "It: The tool has answered. You can read its result above.\n"},
		{"key", "-speak", "in the red drawer", "It: The tool has answered. You can read its result above.\n(spoken: The tool has answered. You can read its result above.)\n"},
		{"hat", "-speak=false", `Error: there is no "hat" in the house`, "It: The tool "},
		{"hat", "-speak", `Error: there is no "hat" in the house`, "It: The tool "},
	} {
		say := `call find {"thing":"` + tt.thing + `"}`
		out, err := command(t, app, nil, "-server", server.url, "-say", say, tt.speak).CombinedOutput()
		if want := "You: " + say + "\n(it used find: " + tt.used + ")\n" + tt.want; err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%s: it printed %q, %v, want %q", tt.speak, out, err, want)
		}
	}
}

// TestExamplePython compiles the example for Python; the SDK that it uses is not here.
func TestExamplePython(t *testing.T) {
	t.Parallel()
	const check = "import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])"
	if out, err := exec.CommandContext(t.Context(), "python3", "-c", check, "../examples/python/talk.py").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestExamplePage makes a call from the example page, which has another origin.
func TestExamplePage(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.FileServer(http.Dir("../examples")))
	t.Cleanup(site.Close)
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_ALLOWED_ORIGINS="+site.URL)
	p := openBrowser(t)
	p.visit(t, site.URL+"/page.html?server="+s.url)
	p.do(t, "press Talk", chromedp.Click(chromedp.CSS("#talk")))
	said := func(words string) {
		t.Helper()
		p.until(t, words, "document.getElementById('said').innerText.includes('"+words+"')")
	}
	said("(the call is ready)")
	p.speak(t)
	said("You: " + heardWords)
	said("It: " + greeting)
	p.do(t, "press Hang up", chromedp.Click(chromedp.CSS("#end")))
	said("(the call ended: hangup)")
	s.untilEnded(t, 1)
}
