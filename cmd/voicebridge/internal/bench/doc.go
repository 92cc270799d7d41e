// Package bench measures what the bridge adds to a call: latency, processor time,
// memory and the time until a call stands.
//
// It holds both ends of every call in one process, so that one clock stamps and
// reads each packet, and runs the bridge as a process of its own, whose use of
// the machine the operating system knows:
//
//	this process                     another process            this process
//	browsers (they offer)  ◀──UDP──▶  the bridge   ◀──UDP──▶  the upstream (it answers)
//	browsers               ◀──────────────UDP────────────▶    the upstream      the reference, without the bridge
//
// The upstream is the simulator, whose ears, mouths and model are the measurement's.
// Both ways are measured one after the other in each round, because only what
// the same machine did in the same minute can be compared. Packets are sent on a
// fixed schedule whether or not earlier ones arrived, as microphones do.
//
// What tools do to a call is measured on the same calls before and while the model
// of one of them uses tools without a pause. A second bridge without tools runs
// beside it, which tells the want of processors from what happens in the bridge.
package bench
