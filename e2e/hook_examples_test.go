package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit/webhook"
)

// TestExampleHooks has both examples of receivers, programs of their own, check real deliveries, and refuse what somebody else has signed.
func TestExampleHooks(t *testing.T) {
	t.Parallel()
	receiver := filepath.Join(t.TempDir(), "hook")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", receiver, "../examples/hook").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	script, err := filepath.Abs("../examples/hook/receiver.mjs")
	must(t, err)
	node, err := exec.LookPath("node")
	must(t, err)
	server := launch(t, environment(t, "VOICEBRIDGE_HOOKS__ALLOW=127.0.0.1"), "serve")
	for name, run := range map[string]func(address, port string) []string{
		"go":   func(address, _ string) []string { return []string{receiver, "-listen", address} },
		"node": func(_, port string) []string { return []string{node, script, port} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			must(t, err)
			address := free.Addr().String()
			_, port, err := net.SplitHostPort(address)
			must(t, err)
			must(t, free.Close())
			var hook struct{ ID, Secret string }
			server.postJSON(t, "/api/hooks", fmt.Sprintf(`{"url":"http://%s/","events":["*"]}`, address), http.StatusCreated, &hook)
			args := run(address, port)
			cmd := command(t, args[0], []string{"HOOK_SECRET=" + hook.Secret}, args[1:]...)
			var out output
			cmd.Stdout, cmd.Stderr = &out, &out
			must(t, cmd.Start())
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait() // it was killed
			})
			testkit.Eventually(t, "the receiver listens", func() bool {
				conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
				if err == nil {
					_ = conn.Close()
				}
				return err == nil
			})
			forged, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/", strings.NewReader("{}"))
			must(t, err)
			webhook.NewSecret().Sign(forged.Header, "msg_forged", time.Now(), []byte("{}"))
			res, err := unpooled.Do(forged)
			must(t, err)
			_ = res.Body.Close()
			testkit.Equal(t, res.StatusCode, http.StatusUnauthorized, "a forged event: status")
			server.postJSON(t, "/api/hooks/"+hook.ID+"/test", "", http.StatusAccepted, nil)
			testkit.Eventually(t, "the receiver has printed the event: "+out.String(), func() bool {
				return strings.HasPrefix(out.String(), `hook.test {"owner":`)
			})
		})
	}
}
