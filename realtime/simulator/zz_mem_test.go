package simulator_test

import (
	"os"
	"runtime"
	"runtime/pprof"
	"testing"

	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
)

func TestZZMem(t *testing.T) {
	runtime.MemProfileRate = 1024
	b := newBench(t, simulator.Config{})
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	one := func() {
		c := b.dial(sessionAudio)
		c.say("hello")
		c.next(realtime.TypeResponseDone)
		if err := c.peer.Close(); err != nil {
			t.Fatal(err)
		}
		<-c.ses.Done()
		c.events, c.raw = nil, nil
	}
	for range 5 {
		one()
	}
	before := heap()
	for range 60 {
		one()
	}
	f, _ := os.Create("/tmp/zzheap")
	_ = pprof.WriteHeapProfile(f)
	_ = f.Close()
	t.Logf("per session (client and server): %d KB", (heap()-before)/60/1024)
}
