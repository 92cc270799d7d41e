package hooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/hooked"
	"voicebridge/toolkit/webhook"
)

var must = testkit.Must

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shelf is a store whose database answers at once, or does not.
type shelf struct {
	mu       sync.Mutex
	secret   string
	waiting  map[string][]hooked.Delivery // by hook
	ended    map[string][]hooked.Outcome
	back     []string
	failing  error // of Finish
	unknown  int   // how many claims are made although they fail
	claimed  map[string][]hooked.Delivery
	wake     chan struct{}
	inFlight map[string]int
	most     map[string]int
}

func newShelf() *shelf {
	return &shelf{
		secret: webhook.NewSecret().Reveal(), waiting: map[string][]hooked.Delivery{}, ended: map[string][]hooked.Outcome{}, wake: make(chan struct{}, 1),
		claimed: map[string][]hooked.Delivery{}, inFlight: map[string]int{}, most: map[string]int{},
	}
}

func (s *shelf) add(hook string, n int) {
	for i := range n {
		s.waiting[hook] = append(s.waiting[hook], hooked.Delivery{HookID: hook, ID: fmt.Sprintf("%s-%d", hook, i), Body: "{}"})
	}
}

func (s *shelf) Woken() <-chan struct{} { return s.wake }
func (s *shelf) TakeFresh() []string    { return nil }

func (s *shelf) Due(context.Context) (due []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, d := range s.waiting {
		if len(d) > 0 {
			due = append(due, id)
		}
	}
	return due, nil
}

func (s *shelf) Claim(_ context.Context, hook string, limit int, alone bool) (hooked.Hook, []hooked.Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if alone {
		s.waiting[hook] = append(s.claimed[hook], s.waiting[hook]...)
		delete(s.claimed, hook)
	}
	n := min(limit, len(s.waiting[hook]))
	claimed := slices.Clone(s.waiting[hook][:n])
	s.waiting[hook] = s.waiting[hook][n:]
	s.claimed[hook] = append(s.claimed[hook], claimed...)
	if s.unknown > 0 {
		s.unknown--
		return hooked.Hook{}, nil, persistence.ErrUnavailable
	}
	return hooked.Hook{ID: hook, URL: "https://" + hook, Secret: s.secret}, claimed, nil
}

func (s *shelf) drop(d hooked.Delivery) {
	s.claimed[d.HookID] = slices.DeleteFunc(s.claimed[d.HookID], func(c hooked.Delivery) bool { return c.ID == d.ID })
}

func (s *shelf) Finish(_ context.Context, d hooked.Delivery, o hooked.Outcome) (hooked.Delivery, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing != nil {
		return d, false, s.failing
	}
	s.drop(d)
	s.ended[d.HookID] = append(s.ended[d.HookID], o)
	d.State = hooked.Delivered
	if o.Status != 200 {
		d.State = hooked.Failed
	}
	return d, true, nil
}

func (s *shelf) GiveBack(_ context.Context, d hooked.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(d)
	s.back = append(s.back, d.ID)
	return nil
}

func (s *shelf) count(hook string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ended[hook])
}

// post counts how many requests a receiver has at the same time.
func (s *shelf) post(took func(to string) time.Duration, answer int) func(context.Context, string, http.Header, []byte) (int, error) {
	return func(ctx context.Context, to string, _ http.Header, _ []byte) (int, error) {
		s.mu.Lock()
		s.inFlight[to]++
		s.most[to] = max(s.most[to], s.inFlight[to])
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.inFlight[to]--
		}()
		select {
		case <-time.After(took(to)):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if took(to) >= answerTimeout {
			return 0, errTimeout
		}
		return answer, nil
	}
}

func start(t *testing.T, store *shelf, post func(context.Context, string, http.Header, []byte) (int, error)) (stop func()) {
	t.Helper()
	addresses, err := NewAddresses(nil)
	must(t, err)
	s := New(Config{Store: store, Addresses: addresses})
	s.post = post
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	return func() {
		cancel()
		must(t, <-ran)
	}
}

// TestDeadReceiver has a receiver that never answers beside one that does, with thousands of events for each.
func TestDeadReceiver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newShelf()
		store.add("dead", 1000)
		store.add("good", 2000)
		stop := start(t, store, store.post(func(to string) time.Duration {
			if to == "https://dead" {
				return answerTimeout
			}
			return 10 * time.Millisecond
		}, 200))
		time.Sleep(lookEvery + 2000/parallel*10*time.Millisecond + time.Second)
		testkit.Equal(t, store.count("good"), 2000, "the good receiver has events")
		time.Sleep(10 * time.Minute)
		stop()
		store.mu.Lock()
		defer store.mu.Unlock()
		if store.most["https://good"] != parallel || store.most["https://dead"] != parallel {
			t.Errorf("at the same time were sent %v, want %d", store.most, parallel)
		}
		// After the first ones, one at a time.
		if n := len(store.ended["dead"]); n < 60 || n > 80 {
			t.Errorf("the dead one was tried %d times in ten minutes", n)
		}
	})
}

// TestStop gives back what was not answered when the process stops.
func TestStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newShelf()
		store.add("slow", 20)
		stop := start(t, store, store.post(func(string) time.Duration { return 8 * time.Second }, 200))
		time.Sleep(lookEvery + time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took > sendGrace {
			t.Errorf("stopping took %v", took)
		}
		store.mu.Lock()
		defer store.mu.Unlock()
		if len(store.back) != parallel || len(store.ended) != 0 || len(store.claimed["slow"]) != 0 {
			t.Errorf("given back %q, ended %v, left %v", store.back, store.ended, store.claimed)
		}
	})
}

// TestStoreAway keeps the end of an attempt, and finds what a claim without an answer has taken.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newShelf()
		store.add("hook", 3)
		store.unknown, store.failing = 2, errors.Join(persistence.ErrUnavailable)
		stop := start(t, store, store.post(func(string) time.Duration { return time.Millisecond }, 200))
		time.Sleep(5 * lookEvery)
		store.mu.Lock()
		if posted := len(store.claimed["hook"]); posted != 3 || len(store.ended["hook"]) != 0 {
			t.Errorf("claimed %d", posted)
		}
		store.failing = nil
		store.mu.Unlock()
		time.Sleep(5 * saveAgain)
		stop()
		testkit.Equal(t, store.count("hook"), 3, "ended")
	})
}

// TestSigned posts to a real server, which verifies with the library of Standard Webhooks.
func TestSigned(t *testing.T) {
	t.Parallel()
	store := newShelf()
	store.add("hook", 1)
	verifier, err := standardwebhooks.NewWebhook(store.secret)
	must(t, err)
	verified := make(chan error, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := verifier.Verify([]byte("{}"), r.Header)
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Webhook-Id") != "hook-0" {
			err = fmt.Errorf("%s with %v", r.Method, r.Header)
		}
		verified <- err
	}))
	defer receiver.Close()
	addresses, err := NewAddresses([]string{"127.0.0.1"})
	must(t, err)
	stop := start(t, store, func(ctx context.Context, _ string, h http.Header, body []byte) (int, error) {
		return addresses.post(ctx, receiver.URL, h, body)
	})
	must(t, testkit.Take(t, "verified", verified))
	stop()
}
