//go:build nightly

package e2e

import "testing"

// TestStrictUpstreamMixed is TestStrictUpstream with clients whose transport is another than the upstream's.
func TestStrictUpstreamMixed(t *testing.T) {
	t.Parallel()
	for name, tt := range strictly {
		for _, transport := range tt.callers[1:] {
			t.Run(name+" by "+transport, func(t *testing.T) {
				t.Parallel()
				testStrictUpstream(t, name, transport)
			})
		}
	}
}

// TestStrictRenewalMixed is TestStrictRenewal with clients whose transport is another than the upstream's.
func TestStrictRenewalMixed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"realtime", "beta"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testStrictRenewal(t, name, "webrtc")
		})
	}
}
