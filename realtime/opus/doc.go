// Package opus turns packets of Opus (RFC 6716) into samples and samples into packets, for a call in which one side
// speaks Opus and the other one does not. Everything is mono. gopus encodes, and decodes: unlike Pion it knows the
// copies of lost packets (in-band FEC), and takes half the time. Only this package knows of it.
package opus
