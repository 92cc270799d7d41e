// Package media is what the connections of a call have in common, whatever carries them: packets of audio, the gate and
// the counters of a stream of packets, a switch that redirects it, and the states of a connection.
//
// Audio is passed on as it comes, without being decoded. A [Switch] between two connections redirects it; [Switch.Hold]
// and [Switch.Release] keep what is said while nobody can hear it.
package media
