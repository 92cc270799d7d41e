// Package conductor is the socket of an app that runs tools itself and speaks with
// its own voice: envelopes both ways, one session for each thread, which outlives
// its connections.
package conductor
