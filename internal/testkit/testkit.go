// Package testkit is what the tests of all packages share: errors that end a test, and waits that end.
//
// A wait's limit is patience, not speed: it counts ticks that this process was given, so it grows on a machine that
// holds the process up, and only something that never comes reaches it. In a synctest bubble it takes virtual time.
package testkit

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Patience is how long a test waits for what must come. It is far below the limit of a package (twenty minutes).
const Patience = 2 * time.Minute

// step is the time between two looks. What a late process misses of them does not count as waited.
const step = 10 * time.Millisecond

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Equal reports an error where got differs from want; format and args name what it is. Slices without elements are the
// same.
func Equal[T any](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	if v := reflect.ValueOf(got); v.Kind() == reflect.Slice && v.Len() == 0 && reflect.ValueOf(want).Len() == 0 {
		return
	}
	if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(format, args...), diff)
	}
}

// Receive returns the next value of ch, and whether ch is open. It ends the test when none comes in time: what names it.
func Receive[T any](t testing.TB, what string, ch <-chan T) (value T, ok bool) {
	t.Helper()
	out, stop := Limit()
	defer stop()
	select {
	case value, ok = <-ch:
		return value, ok
	case <-out:
		t.Fatalf("waited in vain for: %s\n%s", what, stacks())
		return value, false
	}
}

// Take is Receive for a channel that may be closed: what it returns then is the zero value.
func Take[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	value, _ := Receive(t, what, ch)
	return value
}

// Eventually waits until ok returns true. It ends the test when it does not in time: what names it.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	out, stop := Limit() // which goes on while ok looks
	defer stop()
	tick := time.NewTicker(step)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-out:
			t.Fatalf("waited in vain for: %s\n%s", what, stacks())
		}
	}
}

// Context returns a context that ends with the test, or after Patience with a cause that says what was awaited.
func Context(t testing.TB, what string) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	out, stop := Limit()
	go func() {
		defer stop()
		select {
		case <-out:
			cancel(fmt.Errorf("waited in vain for: %s", what))
		case <-ctx.Done():
		}
	}()
	t.Cleanup(func() { cancel(nil) })
	return ctx
}

// Limit returns a channel that is closed once a wait has lasted as long as Patience allows, unless stop was called before:
// for a test that waits for one of several things, or says more than their name when none comes.
func Limit() (out <-chan struct{}, stop func()) {
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		tick := time.NewTicker(step)
		defer tick.Stop()
		for range Patience / step {
			select {
			case <-tick.C:
			case <-stopped:
				return
			}
		}
		close(ended)
	}()
	return ended, func() { close(stopped) }
}

// stacks returns the stacks of all goroutines, cut at 64 kB.
func stacks() []byte {
	all := make([]byte, 64<<10)
	return all[:runtime.Stack(all, true)]
}
