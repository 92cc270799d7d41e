package bench

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestBucketsCoverTheRange(t *testing.T) {
	t.Parallel()
	last := -1
	for d := time.Duration(0); d < 1<<rangeBits; d += max(1, d/1000) {
		b := bucketOf(d)
		if b != last && b != last+1 {
			t.Fatalf("%d ns is in bucket %d, the one before in %d", d, b, last)
		}
		last = b
		if off := middleOf(b) - d; off.Abs() > d/detail+1 {
			t.Fatalf("%d ns reads as %d ns", d, middleOf(b))
		}
	}
	if end := bucketOf(1<<rangeBits - 1); end != buckets-1 {
		t.Errorf("the largest value is in bucket %d of %d", end, buckets)
	}
	if bucketOf(1<<62) != buckets-1 {
		t.Error("a value above the range is not in the last bucket")
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(random.ExpFloat64() * 3e5)
		all = append(all, d)
		h.record(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.001, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(int(q*float64(len(all))+0.5)-1, 0)]
		if off := h.quantile(q) - want; off.Abs() > want/64+1 {
			t.Errorf("quantile %v is %v, want %v", q, h.quantile(q), want)
		}
	}
	if h.max() != all[len(all)-1] || h.count() != uint64(len(all)) {
		t.Errorf("max %v, count %d", h.max(), h.count())
	}
}

func TestQuantileOfFew(t *testing.T) {
	t.Parallel()
	var h histogram
	if h.quantile(0.5) != 0 || h.max() != 0 {
		t.Error("an empty histogram has values")
	}
	h.record(-time.Second)
	if h.quantile(1) != 0 || h.count() != 1 {
		t.Error("a negative duration is not 0")
	}
	h.record(10 * time.Microsecond)
	h.record(time.Hour) // above the range
	if got := h.quantile(0.5); (got - 10*time.Microsecond).Abs() > 100 {
		t.Errorf("the middle of three is %v", got)
	}
	if h.max() != time.Hour || h.quantile(1) > time.Hour {
		t.Errorf("max %v, last %v", h.max(), h.quantile(1))
	}
}

func TestHistogramIsSafe(t *testing.T) {
	t.Parallel()
	var h histogram
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 1000 {
				h.record(time.Duration(i*1000 + n))
			}
		})
	}
	wg.Wait()
	if h.count() != 4000 || h.max() != 3999 {
		t.Errorf("count %d, max %d", h.count(), h.max())
	}
}
