// Package simulator is an upstream that runs locally: it implements the HTTP, WebRTC and WebSocket
// side of the Realtime API as OpenAI does, so that a newcomer without a key has something to talk to and tests
// need no network.
//
// It is strict about what it receives (unknown fields, ids that are too long, two responses at once
// and the like get the API's own errors) and exact in the order of what it sends: generation is
// faster than real time, audio is paced at one 20 ms Opus frame per 20 ms, a response is done
// before it has been heard, and speech over it interrupts it. Over WebSocket audio goes out in events as soon as it is
// made, and the client plays it.
//
// It has no model. It hears that you speak, not what you say: Opus is decoded, speech is found by its energy, and the
// transcript of an utterance is the next one of a script. It chooses its answers by regular expressions over typed text
// and by rotation for utterances. Its voice is a handful of clips, synthesised by gen.sh; a text that has no clip of
// its own is spoken with the sound of another. Token counts are estimates, and remote MCP servers that a session
// declares are kept but never called.
//
// A Script decides what is said and which of the session's tools are called. Faults make the simulator late, wrong or
// silent on purpose, to test clients that must survive that; docs/simulator.md lists them, and the routes that set them
// in a running simulator (Config.Control). Each Session records what it received and sent, and tests can wait for it.
//
// One goroutine owns each session and its parts (Session.run); HTTP handlers, Pion's callbacks and
// the goroutine that takes the caller's audio post closures to its mailbox:
//
//	client events → Session → items, responder, player, listener → wire → client
//	caller's audio → detector → listener → responder → player → wire → caller
package simulator
