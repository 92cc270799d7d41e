package bridge

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/bridge/internal/task"
	"voicebridge/internal/testkit"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// fakeHangUps hands out legs until they are hung up.
type fakeHangUps struct {
	mu    sync.Mutex
	legs  []records.Leg
	done  []string
	saved []records.Response
	err   error
}

func (f *fakeHangUps) LegsToHangUp(context.Context, string, int) ([]records.Leg, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.legs, f.err
}

func (f *fakeHangUps) LegHungUp(_ context.Context, callID string, _ int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, callID)
	f.legs = nil
	return nil
}

func (f *fakeHangUps) Call(context.Context, string, string) (records.Call, error) {
	return records.Call{Model: "gpt-live-1.1"}, nil
}

func (f *fakeHangUps) SaveResponse(_ context.Context, _ thread.Key, r records.Response) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.saved = append(f.saved, r)
	return nil
}

// TestEndedSession bounds what a session is recorded to have lasted that began a minute ago.
func TestEndedSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			length    time.Duration
			reported  bool
			usage     string
			estimated bool
		}{
			{5 * time.Second, false, `{"seconds":15,"type":"duration"}`, true},
			{5 * time.Second, true, `{"seconds":5,"type":"duration"}`, false},
			{40 * time.Second, false, `{"seconds":40,"type":"duration"}`, true},
			{1000 * time.Hour, true, `{"seconds":120,"type":"duration"}`, true},
		} {
			rec := endedSession(&Config{}, records.Leg{StartedAt: time.Now().Add(-time.Minute)}, "", tt.length, tt.reported)
			if string(rec.RawUsage) != tt.usage || rec.Estimated != tt.estimated {
				t.Errorf("%v, reported %t: %s, estimated %t", tt.length, tt.reported, rec.RawUsage, rec.Estimated)
			}
		}
	})
}

// TestHangUpRest retries until the upstream has ended the sessions that an earlier process
// left.
func TestHangUpRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := &fakeUpstream{recorder: &recorder{}, err: errors.New("503")}
		left := &fakeHangUps{legs: []records.Leg{{CallID: "call-9", Generation: 2, UpstreamID: "rtc_9"}}}
		ctx, cancel := context.WithCancel(t.Context())
		rest := hangUps{upstream: up, rest: left, log: quiet()}
		done := task.Go(func() { rest.run(ctx) })
		time.Sleep(3 * hangUpEvery) // virtual
		synctest.Wait()
		if len(left.done) != 0 {
			t.Errorf("hung up %q although the upstream fails", left.done)
		}
		up.fail(nil)
		time.Sleep(hangUpEvery)
		synctest.Wait()
		testkit.Equal(t, left.done, []string{"call-9"}, "left.done")
		cancel()
		<-done
	})
}
