// Package bench measures how many calls a machine carries, at which latency, and what they cost it: processor time,
// memory, and the time until a call is ready.
//
// It holds both ends of every call in one process, so that one clock stamps and reads each packet, and runs the bridge as
// a process of its own, whose resource use the operating system reports:
//
//	this process                     another process            this process
//	browsers (they offer)  ◀──UDP──▶  the bridge   ◀──UDP──▶  the upstream (it answers)
//	browsers               ◀──────────────UDP────────────▶    the upstream      the reference, without the bridge
//
// The upstream is the simulator, with the benchmark's own audio and words. Figures are comparable only if taken on the
// same machine in the same minute, so each round measures both ways, one after the other. Packets are sent on a fixed
// schedule whether or not earlier ones arrived, as microphones do.
package bench
