//go:build !linux && !darwin

package code

// limitSelf does nothing: the engine's own limits and the parent's kill are what is left.
func limitSelf(request) error { return nil }
