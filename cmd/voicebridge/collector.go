package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The garbage collector lets the heap grow by a percentage of what is alive before it collects
// again (GOGC). With 100 %, Go's default, half of the memory of many calls is room for garbage,
// even while only audio flows and hardly any garbage is made. So the percentage follows what is
// allocated, within bounds.
const (
	// collectEvery is how long the room should last between two collections. A collection takes some
	// 50 ms with 100 calls: too small a share of that time to affect the audio's p99.
	collectEvery = 10 * time.Second
	// leastRoom is the room, in bytes, below which a collection is not worthwhile: what 50 calls
	// allocate in collectEvery while only audio flows.
	leastRoom = 4 << 20
	// firstRoom, in bytes, is the most room at first; every paceEvery it at most doubles. Otherwise a
	// burst of new calls would mix what they need only at the start with what they keep, and the heap
	// would never be small again.
	firstRoom = 8 << 20
	// mostRoom, in bytes, is what a busy program gets, or as much as is alive if that is more, as
	// with Go's default: transcripts at 20 events a second in each of 50 calls fill it in some 5 s.
	mostRoom  = 64 << 20
	paceEvery = time.Second
	// calmPaces is how many times paceEvery less must be allocated before the room shrinks.
	calmPaces = 5
)

// paceCollections keeps the heap small until ctx ends, and gives back what a busy time leaves
// behind, unless the operator has set GOGC.
func paceCollections(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	var p pace
	percent := 100
	tick := time.Tick(paceEvery)
	for {
		allocated, alive := heapNow()
		shrinks := p.look(allocated, alive)
		// Setting the percentage stops the program for a moment.
		if wanted := p.percent(alive); wanted > percent*5/4 || wanted < percent*4/5 {
			percent = wanted
			debug.SetGCPercent(percent)
		}
		if shrinks {
			releaseMemory()
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
	}
}

// heapNow returns how many bytes have been allocated since the start, and what the percentage
// refers to: the heap alive after the last collection, stacks and globals.
func heapNow() (allocated, alive uint64) {
	s := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64() + s[2].Value.Uint64() + s[3].Value.Uint64()
}

// pace is how much is allocated, and the room that results from it, in bytes.
type pace struct {
	room      uint64
	allocated uint64 // until the last look
	calm      int    // looks in a row at which less room would have done
	calmRoom  uint64 // the most of these
}

// look sets the room; it is called every paceEvery. It reports whether the room has become smaller by
// a quarter, or more, so that memory is worth giving back.
func (p *pace) look(allocated, alive uint64) (shrinks bool) {
	made := allocated - p.allocated
	p.allocated = allocated
	wanted := max(min(made*uint64(collectEvery/paceEvery), max(alive, mostRoom)), min(leastRoom, alive))
	if wanted >= p.room {
		p.room, p.calm, p.calmRoom = min(wanted, max(2*p.room, firstRoom)), 0, 0
		return false
	}
	p.calm++
	p.calmRoom = max(p.calmRoom, wanted)
	if p.calm < calmPaces {
		return false
	}
	shrinks = p.calmRoom <= p.room/4*3
	p.room, p.calm, p.calmRoom = p.calmRoom, 0, 0
	return shrinks
}

// percent is the room as a part of what is alive, at least 1: with 0 Go would collect without a pause.
func (p *pace) percent(alive uint64) int {
	return int(max(100*p.room/max(alive, 1), 1))
}
