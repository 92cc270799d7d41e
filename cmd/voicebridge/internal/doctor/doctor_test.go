package doctor

import (
	"context"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/internal/testkit"
	"voicebridge/llm/llmtest/speechtest"
	"voicebridge/realtime/simulator"
)

// TestListedUpstreams tries each upstream of the list, over its transport.
func TestListedUpstreams(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	sim, err := simulator.New(simulator.Config{APIKey: "sk-right"})
	testkit.Must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- sim.Run(ctx) }()
	server := httptest.NewServer(sim)
	defer server.Close()
	cfg, err := config.Load(config.Sources{File: inFile(t, nil), Environ: []string{
		"RIGHT=sk-right", "WRONG=sk-wrong", `VOICEBRIDGE_UPSTREAMS=[
			{"name":"right","profile":"realtime","url":"` + server.URL + `/v1/realtime","api_key_env":"RIGHT"},
			{"name":"wrong","profile":"realtime","url":"` + server.URL + `/v1/realtime","api_key_env":"WRONG"},
			{"name":"model","profile":"realtime","url":"` + server.URL + `/v1/realtime","api_key_env":"RIGHT","model":"nobody"},
			{"name":"relayed","profile":"openai","url":"` + server.URL + `/v1/realtime/calls","api_key_env":"RIGHT"},
			{"name":"gone","profile":"realtime","url":"ws://127.0.0.1:1/x?key=secret"},{"name":"here","profile":"simulator"}]`,
	}})
	testkit.Must(t, err)
	var got []string
	d := &doctor{cfg: cfg, report: func(f finding) { got = append(got, strings.ReplaceAll(f.String(), server.URL, "URL")) }}
	for i := range cfg.Upstreams {
		d.upstream(ctx, &cfg.Upstreams[i])
	}
	for i, want := range []string{
		"ok: upstream right: URL/v1/realtime answers (101)", "problem: upstream wrong: URL/v1/realtime refuses the key (401)",
		"problem: upstream model: URL/v1/realtime refuses a session (400): check its model", "ok: upstream relayed: URL/v1/realtime/calls answers (404)",
		"problem: upstream gone: ws://127.0.0.1:1/x does not answer", "warning: upstream here: a simulator answers",
	} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) || strings.Contains(got[i], "secret") {
			t.Errorf("finding %d of %q: want %q", i, got, want)
		}
	}
	stop()
	testkit.Must(t, testkit.Take(t, "the end", ended))
}

// TestCascade has a word go through the servers of a cascade: what they do with it, and what they refuse.
func TestCascade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stt, tts, words string
		want            []string
	}{
		"both":                 {"verbose", "wav+22050", "Hello.", []string{`ok: upstream cascade: URL/v1 says "hello", `, `ok: upstream cascade: URL/v1 hears "Hello.", in `}},
		"another word":         {"text", "pcm", "Yellow.", []string{`ok: upstream cascade: URL/v1 says "hello", `, `warning: upstream cascade: URL/v1 hears "Yellow." instead of "hello"`}},
		"no voice":             {"verbose", "400-fastapi", "", []string{`problem: upstream cascade: URL/v1 does not speak: check cascade.tts (`, `ok: upstream cascade: URL/v1 answers in `}},
		"a model that is none": {"nothing", "404-fastapi", "", []string{`problem: upstream cascade: URL/v1 does not speak: check cascade.tts (`, `problem: upstream cascade: URL/v1 does not write down what is said: check cascade.stt (`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := speechtest.New(t)
			if c.words != "" {
				server.Words <- c.words
			}
			cfg, err := config.Load(config.Sources{File: inFile(t, nil), Environ: []string{
				"VOICEBRIDGE_CASCADE__STT__URL=" + server.URL, "VOICEBRIDGE_CASCADE__STT__MODEL=" + c.stt,
				"VOICEBRIDGE_CASCADE__TTS__URL=" + server.URL, "VOICEBRIDGE_CASCADE__TTS__MODEL=" + c.tts,
			}})
			testkit.Must(t, err)
			var got []string
			d := &doctor{cfg: cfg, report: func(f finding) { got = append(got, strings.ReplaceAll(f.String(), server.URL, "URL/v1")) }}
			d.calls(t.Context())
			if len(got) != len(c.want) {
				t.Fatalf("the findings are %q", got)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("finding %d is %q, want %q", i, got[i], want)
				}
			}
		})
	}
}

func TestIsPublic(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"203.0.113.5/24": true, "2001:db8::1/64": true, "127.0.0.1/8": false, "10.1.2.3/8": false, "172.17.0.1/16": false, "192.168.1.2/24": false,
		"100.64.3.4/10": false, "169.254.1.1/16": false, "::1/128": false, "fe80::1/64": false, "fd00::1/8": false,
	} {
		p := netip.MustParsePrefix(text)
		address := &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
		if got := isPublic(address); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
	if isPublic(&net.UnixAddr{Name: "x"}) {
		t.Error("a socket's file is public")
	}
}
