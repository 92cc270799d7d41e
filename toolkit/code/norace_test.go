//go:build linux && !race

package code

const raceDetector = false
