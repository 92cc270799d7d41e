package bench

import (
	"cmp"
	"math"
	"time"
)

// percent is the share of one core, rounded to what can be known.
func percent(used time.Duration, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return round(100*used.Seconds()/seconds, 3)
}

// round keeps a number of decimals.
func round(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}

// micro is a duration in µs with one decimal.
func micro(d time.Duration) float64 { return round(float64(d)/1e3, 1) }

// milli is a duration in ms with three decimals.
func milli(d time.Duration) float64 { return round(float64(d)/1e6, 3) }

// orZero is the value of a figure that may not be known.
func orZero[N int64 | float64](v *N) float64 { return float64(*cmp.Or(v, new(N))) }
