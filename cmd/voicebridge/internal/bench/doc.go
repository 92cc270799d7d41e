// Package bench measures what the bridge adds to a call: latency, processor time, memory and the
// time until a call is up.
//
// It holds both ends of every call in one process, so that one clock stamps and reads each packet,
// and runs the bridge as a process of its own, whose resource use the operating system reports:
//
//	this process                     another process            this process
//	browsers (they offer)  ◀──UDP──▶  the bridge   ◀──UDP──▶  the upstream (it answers)
//	browsers               ◀──────────────UDP────────────▶    the upstream      the reference, without the bridge
//
// The upstream is the simulator, with the benchmark's own audio and model. Both ways are measured
// one after the other in each round, because figures are comparable only if taken on the same
// machine in the same minute. Packets are sent on a fixed schedule whether or not earlier ones
// arrived, as microphones do.
//
// The effect of tools is measured on the same calls before and while the model of one of them uses
// tools without a pause. A second bridge without tools runs beside it, to tell a shortage of
// processors from effects inside the bridge.
package bench
