// Package opus turns packets of Opus (RFC 6716) into samples and samples into packets, for a call in which one side
// speaks Opus and the other one does not. Everything is mono. Pion decodes; gopus encodes, until Pion's own encoder is
// released. Only this package knows of either.
package opus
