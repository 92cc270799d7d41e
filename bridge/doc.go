// Package bridge is one live voice call: a browser's leg, an upstream's leg, the
// tools and the thread between them.
//
//	          RTP, gated                       RTP
//	browser ─────────────▶ upstream   upstream ─────▶ browser      one pump goroutine a leg (rtc.Peer.Forward)
//
//	browser events ─┐                         ┌─▶ outbox ─▶ browser   one goroutine
//	upstream events ┼─▶ inbox ─▶ the worker ──┼─▶ outbox ─▶ upstream  one goroutine a session
//	tool results ───┤        session.Reduce   ├─▶ spool ──▶ SQL       one goroutine for all calls
//	timers ─────────┘                         └─▶ tools               one goroutine a call
//
// From the top down: commands.go, start.go, reconnect.go and texts.go hold what others ask
// of calls; calls.go holds the calls of this process; worker.go runs one of them; tools.go
// runs its tools. Its legs are in bridge/internal/leg; what it says is saved by
// persistence/spool.
//
// The worker owns the session.State of the call (bridge/internal/session); nobody else
// touches it. Reduce decides and returns effects, which the worker carries out. Audio
// never passes the worker.
//
// A call's life: starting (the first upstream session is told the thread's last
// messages, then configured by one session.update) → live (the caller's audio is let
// through) → draining (late transcripts) → ended. A live call outlives its upstream
// session: the next one is dialled, told what was said and configured beside it, and
// takes its place at a silence, or at once when the old one is lost. Until then a
// switch holds what the caller says.
package bridge
