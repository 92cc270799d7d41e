package bench

import (
	"cmp"
	"math"
	"time"
)

// percent returns the share of one core, rounded to the precision of the measurement.
func percent(used time.Duration, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return round(100*used.Seconds()/seconds, 3)
}

// round rounds to a number of decimals.
func round(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}

// micro returns a duration in µs with one decimal.
func micro(d time.Duration) float64 { return round(float64(d)/1e3, 1) }

// milli returns a duration in ms with three decimals.
func milli(d time.Duration) float64 { return round(float64(d)/1e6, 3) }

// orZero returns the value of a figure that may be unknown.
func orZero[N int64 | float64](v *N) float64 { return float64(*cmp.Or(v, new(N))) }
