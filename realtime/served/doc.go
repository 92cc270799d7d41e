// Package served is the server's side of a session of the Realtime API: its conversation, settings, turns, responses
// and playout. It reaches no network and no vendor. Behind small interfaces are those who answer (Mind), write down
// what is said (Ear), speak (Mouth) and judge when a turn begins and ends (Turns).
//
// It is strict about what it receives (unknown fields, ids that are too long, two responses at once and the like get
// the API's own errors) and exact in the order of what it sends: generation is faster than real time, audio is paced at
// one packet per 20 ms, a response is done before it has been heard, and speech over it interrupts it. Where sound goes
// out in events, it is sent as soon as it is made, and the client plays it.
//
// One goroutine owns each session and its parts (Session.Run); whoever else has something for it posts closures:
//
//	client events → Session → items, responder, player, listener → wire → client
//	caller's audio → Detector → listener → responder → player → wire → caller
package served
