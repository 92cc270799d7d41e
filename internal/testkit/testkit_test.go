package testkit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/internal/testkit"
)

// failing is a test that notes how it was ended.
type failing struct {
	testing.TB

	said string
}

func (f *failing) Helper() {}

func (f *failing) Errorf(format string, args ...any) { f.said += fmt.Sprintf(format, args...) }

func (f *failing) Fatalf(_ string, args ...any) { f.said, _ = args[0].(string); panic(f) }

// TestWaits has what must come never come: each wait ends and names it.
func TestWaits(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(testing.TB){
		"a value": func(t testing.TB) { testkit.Receive(t, "the moon", make(chan int)) },
		"a state": func(t testing.TB) { testkit.Eventually(t, "the moon", func() bool { return false }) },
		"a context": func(t testing.TB) {
			ctx := testkit.Context(t, "the moon")
			<-ctx.Done()
			t.Fatalf("%v", context.Cause(ctx).Error())
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &failing{TB: t}
			began := time.Now()
			func() {
				defer func() { _ = recover() }()
				wait(f)
			}()
			if took := time.Since(began); !strings.Contains(f.said, "the moon") || took != testkit.Patience {
				t.Errorf("%s: ended after %s with %q", name, took, f.said)
			}
		})
	}
}

// TestCame has it come.
func TestCame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ch := make(chan int)
		time.AfterFunc(time.Second, func() { ch <- 7; close(ch) })
		if v, ok := testkit.Receive(t, "a number", ch); v != 7 || !ok {
			t.Errorf("received %d, %v", v, ok)
		}
		if _, ok := testkit.Receive(t, "the end", ch); ok {
			t.Error("a closed channel is taken as open")
		}
		seen := 0
		testkit.Eventually(t, "the third look", func() bool { seen++; return seen == 3 })
		if ctx := testkit.Context(t, "nothing"); ctx.Err() != nil {
			t.Error(ctx.Err())
		}
	})
}

// TestEqual compares what is the same and what is not.
func TestEqual(t *testing.T) {
	t.Parallel()
	type private struct{ n int }
	f := &failing{TB: t}
	testkit.Equal(f, nil, []string{}, "no elements")
	testkit.Equal(f, private{1}, private{1}, "structs")
	if f.said != "" {
		t.Error(f.said)
	}
	for _, differ := range []func(){
		func() { testkit.Equal(f, 1, 2, "the number of %s", "moons") },
		func() { testkit.Equal(f, nil, []string{""}, "the number of %s", "moons") },
		func() { testkit.Equal(f, private{1}, private{2}, "the number of %s", "moons") },
	} {
		if differ(); !strings.HasPrefix(f.said, "the number of moons (-want +got):\n") {
			t.Errorf("said %q", f.said)
		}
		f.said = ""
	}
}
