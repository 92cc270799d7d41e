// Package bridge is one live voice call: a browser's leg, an upstream's leg, the
// tools and the thread between them.
//
//	          RTP, gated                       RTP
//	browser ─────────────▶ upstream   upstream ─────▶ browser      two pump goroutines (rtc.Peer.Forward)
//
//	browser events ─┐                      ┌─▶ outbox ─▶ browser   one writer goroutine
//	upstream events ┼─▶ inbox ─▶ the loop ─┼─▶ sender ─▶ upstream  one writer goroutine
//	tool results ───┤            reduce    ├─▶ journal ─▶ SQL      one writer goroutine
//	timers ─────────┘                      └─▶ tools               one goroutine a call
//
// The loop owns the [state]; nobody else touches it. [state.reduce] decides and
// returns effects, it does no input or output and reads no clock, so that every
// rule of a call can be tested without a goroutine. Audio never passes the loop.
//
// A call's life: dialing → seeding (the thread's last messages are replayed) →
// configuring (one session.update) → live (the caller's audio is let through) →
// draining (late transcripts) → ended.
package bridge
