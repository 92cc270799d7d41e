package webhook

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
)

// TestSign has the example of the specification's libraries.
func TestSign(t *testing.T) {
	t.Parallel()
	s, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	testkit.Must(t, err)
	header := http.Header{}
	s.Sign(header, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	for name, want := range map[string]string{
		"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
		"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
	} {
		testkit.Equal(t, header.Get(name), want, "%s", name)
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	made := NewSecret()
	read, err := ParseSecret(made.Reveal())
	if err != nil || read.Reveal() != made.Reveal() || made.Reveal() == NewSecret().Reveal() || !made.IsSet() || (Secret{}).IsSet() {
		t.Errorf("%s read as %s, %v", made.Reveal(), read.Reveal(), err)
	}
	for _, format := range []string{"%v", "%s", "%+v", "%#v", "%q"} {
		if text := fmt.Sprintf(format, struct{ s, S Secret }{made, made}); strings.Contains(text, made.Reveal()[len(Prefix):]) || strings.Contains(text, *made.key) {
			t.Errorf("%s prints %s", format, text)
		}
	}
	for _, bad := range []string{"", "whsec_", "whsec_!", "whsec_c2hvcnQ=", Prefix + strings.Repeat("AAAA", 22)} {
		if s, err := ParseSecret(bad); err == nil || s.IsSet() || len(bad) > len(Prefix) && strings.Contains(err.Error(), bad) {
			t.Errorf("ParseSecret(%q) = %v, %v", bad, s, err)
		}
	}
}
