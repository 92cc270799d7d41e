// Package session decides about one live call. It is pure: [State.Reduce] takes what
// happened and returns what is to be done. It does no input or output, starts no
// goroutine and reads no clock, so that every rule of a call can be tested by itself.
//
//	            Input
//	              │
//	          state.go ── lifecycle.go, renewal.go
//	              │
//	from_upstream.go  from_browser.go  from_server.go
//	              │
//	   tools.go   settings.go   playback.go
//	              │
//	        responses.go, items.go
//	              │
//	        transcript.go
//	              │
//	     upstream.go, core.go ──▶ []Effect
//
// What belongs to the conversation outlives an upstream session: the transcript, the
// tool calls, what was heard, what waits for an answer. What belongs to one upstream
// session is an [upstream]. There may be two of them: the one that is heard, and the
// one that is made ready to take its place. Each has a generation, and every input
// from an upstream names it.
package session
