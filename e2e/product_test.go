package e2e

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
)

// TestProduct is a client: it runs the lines of docs/product.md that put a call into somebody's product, as they stand there but for the
// ports: the shell's in a shell, and in Chromium the page that they serve.
func TestProduct(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../docs/product.md")
	must(t, err)
	section := string(readme)
	var ports []string
	for _, documented := range []string{"8080", "3000", "9000"} {
		_, port, err := net.SplitHostPort(keptAddress(t))
		must(t, err)
		ports = append(ports, documented, port)
	}
	blocks := regexp.MustCompile("(?s)```(bash|js)\n(.*?)```").FindAllStringSubmatch(strings.NewReplacer(ports...).Replace(section), -1)
	if len(blocks) != 3 || blocks[2][1] != "js" {
		t.Fatalf("%d blocks, want two for the shell and a script", len(blocks))
	}
	start, once, script := blocks[0][2], blocks[1][2], blocks[2][2]
	testkit.Equal(t, strings.Count(once+script, "\n"), 20, "the twenty lines")

	dir := t.TempDir()
	program, err := build()
	must(t, err)
	examples, err := filepath.Abs("../examples")
	must(t, err)
	must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	must(t, os.Symlink(program, filepath.Join(dir, "bin", "voicebridge")))
	must(t, os.Symlink(examples, filepath.Join(dir, "examples")))
	must(t, os.WriteFile(filepath.Join(dir, "product.mjs"), []byte(script), 0o600))
	shell := command(t, "bash", []string{"VOICEBRIDGE_LISTEN=127.0.0.1:" + ports[1]}, "-euo", "pipefail", "-c", start+once)
	shell.Dir = dir
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, logged output
	shell.Stdout, shell.Stderr = &out, &logged
	must(t, shell.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGTERM) // what it has started, too
		_ = shell.Wait()                                      // it was stopped
		if t.Failed() {
			t.Logf("the commands print:\n%s\n%s", out.String(), gist(logged.String()))
		}
	})
	page := "localhost:" + ports[3]
	testkit.Eventually(t, "the product listens", func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", page)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})

	p := openBrowser(t)
	p.visit(t, "http://"+page+"/")
	p.do(t, "press Talk", chromedp.Click(chromedp.CSS("#talk")))
	p.until(t, "the greeting", `probe.events.some(({ event }) => event.type === 'response.output_audio_transcript.done' && event.transcript === 'Hello Anna!')`)
	p.until(t, "its sound", "document.getElementById('voice').currentTime > 0")
	p.do(t, "press it again", chromedp.Click(chromedp.CSS("#talk")))

	told := regexp.MustCompile(`(?m)^call\.ended (\{.*\})$`)
	testkit.Eventually(t, "the hook is told of the end", func() bool { return told.MatchString(out.String()) })
	var ended struct {
		Owner       string
		EndReason   string            `json:"end_reason"`
		AssistantID string            `json:"assistant_id"`
		Variables   map[string]string `json:"variables"`
	}
	must(t, json.Unmarshal([]byte(told.FindStringSubmatch(out.String())[1]), &ended))
	if ended.Owner != "shop" || ended.EndReason != "hangup" || ended.AssistantID != "front-desk" || ended.Variables["customer"] != "Anna" {
		t.Errorf("the hook was told of %+v", ended)
	}
}
