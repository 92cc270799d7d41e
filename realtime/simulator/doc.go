// Package simulator is an upstream that runs locally: it implements the HTTP, WebRTC and WebSocket
// side of the Realtime API as OpenAI does, so that a newcomer without a key has something to talk to and tests
// need no network.
//
// Its sessions are those of package served, with a script in the place of a model, clips in that of a voice, and faults
// between them and their clients.
//
// It has no model. It hears that you speak, not what you say: Opus is decoded, speech is found by its energy, and the
// transcript of an utterance is the next one of a script. It chooses its answers by regular expressions over typed text
// and by rotation for utterances. Its voice is a handful of clips, synthesised by gen.sh; a text that has no clip of
// its own is spoken with the sound of another. Token counts are estimates, and remote MCP servers that a session
// declares are kept but never called.
//
// A Script decides what is said and which of the session's tools are called. Faults make the simulator late, wrong or
// silent on purpose, to test clients that must survive that; docs/simulator.md lists them. Each Session
// records what it received and sent, and tests can wait for it.
package simulator
