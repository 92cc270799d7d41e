// Package ws is the client of an upstream that speaks the Realtime API over WebSocket: events are JSON, and sound is
// base64 in events. A [Conn] behaves as a WebRTC connection to OpenAI does, so that a call need not know the
// difference: sound is played in real time, the caller's interruption stops it, and the upstream is told what was
// really played. A client that plays answers by its own clock gets them in the pieces in which they come, see
// [media.Ahead]; the clock here then only knows what is heard by now.
//
//	upstream ─▶ reader ─▶ Handlers.Message          sound ─▶ playout ─▶ Forward (20 ms each 20 ms ─▶ sink)
//	upstream ◀─ writer ◀─ queue ◀─ Send, WriteAudio
//
// What differs from one upstream to the next is data: see [Profiles].
package ws
