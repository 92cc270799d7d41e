//go:build nightly

package e2e

import "testing"

// TestLongQueueKilled is TestQueueKilled with ten times as many messages.
func TestLongQueueKilled(t *testing.T) {
	t.Parallel()
	killQueue(t, 8, 50, 25)
}
