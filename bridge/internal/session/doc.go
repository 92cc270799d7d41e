// Package session decides about one live call. It is pure: [State.Reduce] takes what
// happened and returns what is to be done. It does no input or output, starts no
// goroutine and reads no clock, so that every rule of a call can be tested by itself.
//
//	                       reduce.go           an input comes in, effects go out
//	from_upstream.go  browser.go  setup.go     events of the upstream, connections, the first session
//	            renewal.go                     the next session
//	from_browser.go  from_server.go  from_response.go
//	          ending.go  items.go
//	              state.go                     what follows is owned by it:
//	tools.go  settings.go  playback.go
//	            responses.go
//	            transcript.go                  items and messages, in their order
//	      upstream.go  core.go                 the events that are sent, and []Effect
//
// A file uses those below it and none above: whoever follows an event never climbs.
//
// What belongs to the conversation outlives an upstream session: the transcript, the
// tool calls, what was heard, what waits for an answer. What belongs to one upstream
// session is an [upstream]. There may be two of them: the one that is heard, and the
// one that is made ready to take its place. Each has a generation, and every input
// from an upstream names it.
package session
