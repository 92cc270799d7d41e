// Package conductor serves the socket of an app that runs tools itself and speaks with its own
// voice: envelopes in both directions, and one session per thread, which outlives its connections.
package conductor
