package telemetry

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"voicebridge/bridge"
	"voicebridge/thread"
)

// voiceCall makes the metrics of a call, and the trace of its set-up.
type voiceCall struct {
	*Observer

	key   thread.Key
	id    string
	asker trace.SpanContext // asked for the call; may be invalid
}

// SetUp makes the trace of how the call was set up, below the request for it.
func (c *voiceCall) SetUp(s bridge.SetUp) {
	c.traces.setUp(c.asker, s, attribute.String("voicebridge.thread_id", c.key.Thread),
		attribute.String("voicebridge.call_id", c.id))
}

// TurnOver counts a turn.
func (c *voiceCall) TurnOver(turn bridge.Turn) {
	for _, r := range slices.Concat(turn.Responses, turn.Charges) {
		c.metrics.response(kindVoice, c.upstream, r)
	}
	if len(turn.Responses) == 0 {
		return
	}
	for _, stage := range []string{"commit", "response", "first_audio", "first_packet"} {
		if ms, reached := turn.Latency[stage]; reached {
			c.metrics.took(kindVoice, stage, time.Duration(ms)*time.Millisecond)
		}
	}
}

// Ended counts a call that its upstream ended. The reasons are the bridge's, a closed list.
func (c *voiceCall) Ended(reason bridge.EndReason) {
	switch reason {
	case bridge.EndUpstreamLost, bridge.EndUpstreamSetup, bridge.EndUpstreamRefused,
		bridge.EndUpstreamEndedIt, bridge.EndSessionRejected, bridge.EndSessionExpired:
		c.metrics.failures.WithLabelValues(kindVoice, c.upstream, string(reason)).Inc()
	default:
	}
}
