// Package recording keeps what was heard in calls. A [Recorder] takes the packets of both sides as they pass, without
// decoding them and without making them wait, and writes them with their times to a file, the tape, of which a crash
// loses at most the last second. After the call an [Archive] makes Ogg files of it (RFC 7845), in which pauses, losses,
// renewals and reconnects keep their length, and puts them into a [Store].
package recording
