package dbtype

import (
	"testing"
	"time"
)

func TestTime(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC)
	odd := want.In(time.FixedZone("odd", 5*60*60+45*60))
	for _, src := range []any{
		odd, odd.Add(999 * time.Nanosecond), "2026-01-02T03:04:05.000678Z", []byte("2026-01-02T08:49:05.000678+05:45"),
	} {
		var got Time
		if err := got.Scan(src); err != nil || got.Time != want {
			t.Errorf("Scan(%v) = %v, %v, want %v", src, got, err, want)
		}
	}
	for _, src := range []any{nil, 5, "yesterday", "2026-01-02"} {
		if err := new(Time).Scan(src); err == nil {
			t.Errorf("Scan(%v) = nil", src)
		}
	}
	if v, err := (Time{odd}).Value(); err != nil || v != "2026-01-02T03:04:05.000678Z" {
		t.Errorf("Value() = %v, %v", v, err)
	}
	if v, err := (Time{want.AddDate(8000, 0, 0)}).Value(); err == nil {
		t.Errorf("Value() of the year 10026 = %v", v)
	}
	if AtPtr(nil) != nil || (*Time)(nil).Ptr() != nil || *AtPtr(&odd).Ptr() != want {
		t.Error("AtPtr() and Ptr() do not keep a time")
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	for want, src := range map[string]any{`{"a":1}`: `{"a":1}`, `[]`: []byte(`[]`), `5`: int64(5), `1.5`: 1.5} {
		var got JSON
		if err := got.Scan(src); err != nil || string(got) != want {
			t.Errorf("Scan(%v) = %s, %v, want %s", src, got, err, want)
		}
		if v, err := got.Value(); err != nil || v != want {
			t.Errorf("Value() = %v, %v, want %s", v, err, want)
		}
	}
	got := JSON("x")
	if err := got.Scan(nil); err != nil || got != nil {
		t.Errorf("Scan(nil) = %s, %v", got, err)
	}
	if v, err := got.Value(); err != nil || v != nil {
		t.Errorf("Value() of NULL = %v, %v", v, err)
	}
	if err := got.Scan(true); err == nil {
		t.Error("Scan(true) = nil")
	}
}
