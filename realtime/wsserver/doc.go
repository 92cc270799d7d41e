// Package wsserver is the server's side of the Realtime API over WebSocket: events are JSON, and sound is base64 in
// events. To a call a [Conn] is what a browser's peer connection is.
//
//	client ─▶ reader ─▶ Handlers.Message      appended sound ─▶ input ─▶ Forward (20 ms each 20 ms ─▶ sink)
//	client ◀─ writer ◀─ queue ◀─ Send, WriteAudio (deltas of the answer that is being played)
package wsserver
