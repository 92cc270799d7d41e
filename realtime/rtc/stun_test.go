package rtc

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/pion/stun/v4"

	"voicebridge/internal/testkit"
)

// TestPublicAddress asks a server that loses the first request and sends noise, one that refuses, and one that is
// silent.
func TestPublicAddress(t *testing.T) {
	t.Parallel()
	silent := errors.New("the test has seen enough")
	for name, c := range map[string]struct {
		answer func(request *stun.Message) []stun.Setter
		want   string
	}{
		"an answer": {func(r *stun.Message) []stun.Setter {
			return []stun.Setter{r, stun.BindingSuccess, stun.XORMappedAddress{IP: net.IPv4(203, 0, 113, 5), Port: 4321}}
		}, "203.0.113.5:4321"},
		"IPv6": {func(r *stun.Message) []stun.Setter {
			return []stun.Setter{r, stun.BindingSuccess, stun.XORMappedAddress{IP: net.ParseIP("2001:db8::5"), Port: 4321}}
		}, "[2001:db8::5]:4321"},
		"a refusal": {func(r *stun.Message) []stun.Setter { return []stun.Setter{r, stun.BindingError, stun.CodeForbidden} }, ""},
		"silence":   {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listen := func() net.PacketConn {
				conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
				must(t, err)
				t.Cleanup(func() { _ = conn.Close() })
				return conn
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			server, done := listen(), make(chan struct{})
			go func() {
				defer close(done)
				buf := make([]byte, 1500)
				for requests := 1; ; requests++ {
					n, from, err := server.ReadFrom(buf)
					if err != nil {
						return
					}
					request := &stun.Message{Raw: buf[:n]}
					switch {
					case request.Decode() != nil:
						t.Error("the request is not STUN")
					case c.answer == nil && requests == 2:
						cancel(silent)
					case c.answer == nil || requests == 1:
						_, _ = server.WriteTo([]byte("noise"), from)
						stranger := stun.MustBuild(stun.TransactionID, stun.BindingSuccess)
						_, _ = server.WriteTo(stranger.Raw, from)
					default:
						_, _ = server.WriteTo(stun.MustBuild(c.answer(request)...).Raw, from)
					}
				}
			}()
			got, err := PublicAddress(ctx, listen(), server.LocalAddr().String())
			if (err == nil) != (c.want != "") || err == nil && got.String() != c.want || c.answer == nil && !errors.Is(err, silent) {
				t.Errorf("PublicAddress() = %v, %v, want %q", got, err, c.want)
			}
			_ = server.Close()
			testkit.Take(t, "the end", done)
		})
	}
}
