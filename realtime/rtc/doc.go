// Package rtc makes WebRTC peers that hold one Opus audio stream each way and one data channel with the label
// "oai-events". It is the only package that knows Pion: the rest of the program sees SDP text, data-channel messages
// and packets of audio.
//
// One [API] serves a process. [API.Answer] makes the peer for a browser, which offers; [API.Offer] makes the peer for
// an upstream, which answers. Both give a [Peer]:
//
//	remote ⇄ ICE ⇄ DTLS ⇄ ┬ SRTP ⇄ Forward (remote → sink), WriteAudio (→ remote)
//	                      └ SCTP ⇄ Handlers.Message (← remote), Send (→ remote)
//
// A peer owns two goroutines besides those of Pion: the watcher (state changes and RTCP reports) and the data channel's
// reader. [Peer.Close] joins both. A browser's peer outlives its path: [Peer.Restart] takes a further offer and finds
// another one.
//
// Audio is forwarded without being decoded: [Peer.Forward] reads into one buffer, drops CSRCs, header extensions and
// padding, and hands on the Opus payload. A [media.Switch] between two peers redirects it; [media.Switch.Hold] and
// [media.Switch.Release] keep what is said while nobody can hear it. A peer that gets audio from one peer after
// another sends one continuous stream.
package rtc
