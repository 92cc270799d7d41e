// Package transcode stands between a side of a call that speaks Opus and one that does not: a [Reader] turns packets of
// any format into samples, [ToOpus] packets of samples into Opus. Between two sides that speak Opus, packets pass
// untouched.
package transcode
