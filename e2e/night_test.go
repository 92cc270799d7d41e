//go:build !nightly

package e2e

// night is whether these are the tests of a night, which have pages move and take pictures of them. For those of a change
// pages draw as for users who want little motion: a third of a browser's work is motion.
const night = false
