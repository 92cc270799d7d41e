// Package session holds the rules of a live call. It is pure: [State.Reduce] takes what happened
// and returns what to do. It does no I/O, starts no goroutines and reads no clock, so that every
// rule can be tested on its own.
//
//	                       reduce.go           an input comes in, effects go out
//	from_upstream.go  browser.go  setup.go     events of the upstream, connections, the first session
//	            renewal.go                     the next session
//	from_browser.go  from_server.go  from_response.go
//	     ending.go  items.go  visible.go
//	              state.go                     what follows is owned by it:
//	tools.go  settings.go  playback.go
//	            responses.go
//	            transcript.go                  items and messages, in their order
//	      upstream.go  core.go                 the events that are sent, and []Effect
//
// A file uses only those below it, so that following an event always leads downwards.
//
// What belongs to the conversation outlives an upstream session: the transcript, the tool calls,
// what was heard, what waits for an answer. What belongs to one upstream session is an [upstream].
// There may be two: the active one, and the one being prepared to replace it. Each has a
// generation, and every input from an upstream names it.
package session
