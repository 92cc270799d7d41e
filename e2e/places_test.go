package e2e

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// places are taken by tests that play or make media in real time: more of them at a time than the machine carries would
// all be late. One place is enough for a test and its subtests, so nobody waits for a place who has one.
var places = struct {
	free  func() chan struct{}
	taken sync.Map // names of tests
}{free: sync.OnceValue(func() chan struct{} { return make(chan struct{}, carried()) })}

// takePlace waits until the test may play media.
func takePlace(t *testing.T) {
	t.Helper()
	for name := t.Name(); name != ""; name = name[:max(0, strings.LastIndexByte(name, '/'))] {
		if _, has := places.taken.Load(name); has {
			return
		}
	}
	places.free() <- struct{}{}
	places.taken.Store(t.Name(), true)
	t.Cleanup(func() {
		places.taken.Delete(t.Name())
		<-places.free()
	})
}

const (
	canaryFor   = time.Second
	frame       = 20 * time.Millisecond
	perCore     = 3 // a tab with a call wants a third of a processor
	muchTooLate = frame / 2
)

// carried measures how many tests with media in real time this machine carries, by processes that are as busy as browsers:
// what they get of the processors beside all else that runs here, and how late a clock of frames is meanwhile.
func carried() int {
	cores := runtime.NumCPU()
	self, err := os.Executable()
	if cores == 1 || err != nil {
		return 1
	}
	got := make(chan float64, cores)
	for range cores {
		go func() {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), actsAs+"="+asWorker)
			began := time.Now()
			if cmd.Run() != nil {
				got <- 0
				return
			}
			got <- float64(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()) / float64(time.Since(began))
		}()
	}
	late, ticks := 0, 0
	tick := time.NewTicker(frame)
	defer tick.Stop()
	var all float64
	for ended := 0; ended < cores; {
		select {
		case at := <-tick.C:
			if ticks++; time.Since(at) > muchTooLate {
				late++
			}
		case share := <-got:
			all += share
			ended++
		}
	}
	n := int(perCore*all + 0.5)
	if late*2 > ticks { // not even a clock keeps its time
		n /= 2
	}
	return max(1, n)
}

// work is what a busy process does.
func work() {
	for end := time.Now().Add(canaryFor); time.Now().Before(end); {
		for range 1 << 16 { // it takes time
		}
	}
}
