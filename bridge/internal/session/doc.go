// Package session holds the rules of a live call. It is pure: [State.Reduce] takes what happened
// and returns what to do. It does no I/O, starts no goroutines and reads no clock, so that every
// rule can be tested on its own.
//
//	                    reduce.go                 an input comes in, effects go out
//	from_upstream.go                              events of the upstream,
//	from_browser.go  from_server.go  clients.go   of the browser, of others; who comes and goes
//	          phases.go  switching.go             the beginning and the end, and to the next session
//	                     state.go                 what follows is owned by it:
//	texts.go  speech.go  renewal.go  view.go
//	tools.go  playback.go  settings.go  client_tools.go
//	        responses.go  limiter.go  recording.go
//	               transcript.go                  items and messages, in their order
//	         upstream.go  core.go                 the events that are sent, and []Effect
//
// Each of the parts owns its data, and has the methods that need it. What involves several of them is a method of
// State. A file uses only those below it, so that following an event always leads downwards.
//
// What belongs to the conversation outlives an upstream session: the transcript, the tool calls,
// what was heard, what waits for an answer. What belongs to one upstream session is an [upstream].
// There may be two: the active one, and the one being prepared to replace it. Each has a
// generation, and every input from an upstream names it.
package session
