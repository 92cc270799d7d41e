package bench

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// detail is how many buckets each doubling has: values are precise to 1 in 128.
	detailBits = 7
	detail     = 1 << detailBits
	// rangeBits sets the largest value, 2^37 ns or 137 s, as which larger ones count.
	rangeBits = 37
	buckets   = (rangeBits-detailBits)*detail + detail
)

// histogram counts durations in constant memory (31 KB). The zero value is empty. It is safe for
// concurrent use.
type histogram struct {
	counts  [buckets]atomic.Uint64
	total   atomic.Uint64
	largest atomic.Int64 // ns
}

// record counts one duration; a negative one counts as 0.
func (h *histogram) record(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(d)].Add(1)
	h.total.Add(1)
	for {
		old := h.largest.Load()
		if int64(d) <= old || h.largest.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// count returns how many durations were recorded.
func (h *histogram) count() uint64 { return h.total.Load() }

// max returns the largest duration, exactly.
func (h *histogram) max() time.Duration { return time.Duration(h.largest.Load()) }

// quantile returns the smallest duration, to 1 in 128, that a share q (0 to 1) of all does not
// exceed; 0 if there is none.
func (h *histogram) quantile(q float64) time.Duration {
	total := h.total.Load()
	rank := max(uint64(math.Ceil(q*float64(total))), 1)
	seen := uint64(0)
	for i := range h.counts {
		if seen += h.counts[i].Load(); seen >= rank {
			return min(middleOf(i), h.max())
		}
	}
	return 0
}

// bucketOf returns the bucket of a duration that is not negative. Durations below 2*detail ns each
// have their own; above that, the leading bits decide.
func bucketOf(d time.Duration) int {
	v := min(uint64(d), 1<<rangeBits-1) // not negative
	shift := max(bits.Len64(v)-detailBits-1, 0)
	return shift*detail + int(v>>shift) // below 2*detail
}

// middleOf returns the value that stands for a bucket.
func middleOf(bucket int) time.Duration {
	shift := max(bucket/detail-1, 0)
	low := int64(bucket-shift*detail) << shift
	return time.Duration(low + 1<<shift>>1)
}
