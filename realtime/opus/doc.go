// Package opus turns packets of Opus (RFC 6716) into samples and samples into packets, for a call in which one side
// speaks Opus and the other one does not. Everything is mono. Pion decodes, and gopus encodes; from the first loss on
// gopus decodes too, because Pion does not know the copies of lost packets (in-band FEC). Only this package knows of
// it.
package opus
