package session

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"voicebridge/realtime"
	"voicebridge/toolkit"
)

// twin is a deep copy of a call's state. What the state and the copy make of an input must be the same, and what is left
// of them, too: Reduce is a function of its arguments.
type twin struct {
	s    *State
	seen map[unsafe.Pointer]reflect.Value // copies by what they are of
}

func copyOf(s *State) *twin {
	t := &twin{seen: map[unsafe.Pointer]reflect.Value{}}
	t.s = t.of(reflect.ValueOf(s)).Interface().(*State)
	return t
}

// of returns a copy of a value. Functions, channels and what an interface holds are shared.
func (t *twin) of(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || v.Type() == reflect.TypeFor[*time.Location]() {
			return v
		}
		if c, ok := t.seen[v.UnsafePointer()]; ok && c.Type() == v.Type() {
			return c
		}
		switch p := v.Interface().(type) {
		case *toolkit.Registry:
			c.Set(reflect.ValueOf(p.Clone()))
		case *strings.Builder:
			b := new(strings.Builder)
			b.WriteString(p.String())
			c.Set(reflect.ValueOf(b))
		default:
			c.Set(reflect.New(v.Type().Elem()))
			t.seen[v.UnsafePointer()] = c
			c.Elem().Set(t.of(v.Elem()))
			return c
		}
		t.seen[v.UnsafePointer()] = c
	case reflect.Struct:
		c.Set(v)
		if v.Type() == reflect.TypeFor[toolkit.Entry]() {
			return c // it never changes
		}
		for i := range v.NumField() {
			field(c, i).Set(t.of(field(v, i)))
		}
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		c.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			c.Index(i).Set(t.of(v.Index(i)))
		}
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		c.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for key, value := range v.Seq2() {
			c.SetMapIndex(t.of(key), t.of(value))
		}
	default:
		return v
	}
	return c
}

// field returns a field of a struct that can be read and, if the struct can, set.
func field(v reflect.Value, i int) reflect.Value {
	if !v.CanAddr() {
		c := reflect.New(v.Type()).Elem()
		c.Set(v)
		v = c
	}
	f := v.Field(i)
	return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()
}

// same checks that an input had the same effects on the state and its copy.
func (t *twin) same(test *testing.T, s *State, effects, ofTwin []Effect) {
	test.Helper()
	options := cmp.Options{
		cmp.Exporter(func(reflect.Type) bool { return true }),
		cmp.Comparer(func(a, b *toolkit.Registry) bool { return cmp.Equal(a.Definitions(), b.Definitions()) }),
		cmp.Comparer(func(a, b toolkit.Entry) bool {
			return a.Tool == nil && b.Tool == nil || a.Tool != nil && b.Tool != nil && cmp.Equal(a.Tool.Definition(), b.Tool.Definition())
		}),
		cmp.Comparer(func(a, b *strings.Builder) bool { return a == b || a != nil && b != nil && a.String() == b.String() }),
		cmp.Comparer(func(_, _ func(string, string, realtime.Usage) *float64) bool { return true }),
		cmp.Comparer(func(_, _ func(time.Time, int) string) bool { return true }),
		cmp.Comparer(func(a, b chan<- bool) bool { return a == b }),
		cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) }),
	}
	if diff := cmp.Diff(effects, ofTwin, options); diff != "" {
		test.Errorf("the effects on a copy differ:\n%s", diff)
	}
	if s.phase != ended {
		return // comparing states takes long
	}
	if diff := cmp.Diff(s, t.s, options); diff != "" {
		test.Errorf("a copy is in another state afterwards:\n%s", diff)
	}
}
