package bench

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata again")

// took returns samples of packets that all took as long; lost of them did not arrive.
func took(ms float64, n, lost int) Path {
	m := meter{sent: n + lost}
	for range n {
		m.add(time.Duration(ms * float64(time.Millisecond)))
	}
	return m.path()
}

func sample() Report {
	r := newReport(Config{Duration: 10 * time.Second, Events: 5, Version: "v1.2.3"})
	r.StartedAt = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	r.Machine = Machine{OS: "linux", Arch: "amd64", Cores: 2, Go: "go1.26.8"}
	idle, before, after := usage{rss: 36864}, usage{cpu: time.Second}, usage{cpu: 3 * time.Second, rss: 66864}
	r.Rounds = []Round{
		{Calls: 1, Audio: took(0.15, 400, 100), Words: took(0.4, 50, 0), Ready: took(40, 1, 0), LateP99: 7300},
		{Calls: 50, Audio: took(0.15, 500, 0), Words: took(0.4, 50, 0), Ready: took(40, 1, 0), LateP99: 1000, Bridge: newProcess(50, idle, before, after, 10)},
	}
	r.Notes = r.doubts()
	return r
}

func TestTable(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	must(t, sample().WriteTable(&got))
	const file = "testdata/table.txt"
	if *update {
		must(t, os.WriteFile(file, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	got.Reset()
	r := sample()
	r.Rounds = r.Rounds[:1]
	if must(t, r.WriteTable(&got)); !strings.Contains(got.String(), "only Linux reports them") {
		t.Error(got.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestTableTellsOfAFailedWrite(t *testing.T) {
	t.Parallel()
	if err := sample().WriteTable(broken{}); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("%v", err)
	}
}

func TestReportAsJSON(t *testing.T) {
	t.Parallel()
	want := sample()
	raw, err := json.Marshal(want)
	must(t, err)
	var got Report
	must(t, json.Unmarshal(raw, &got))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	empty, err := json.Marshal(newReport(Config{}))
	if err != nil || !strings.Contains(string(empty), `"rounds":[],"notes":[]`) {
		t.Errorf("%s, %v", empty, err)
	}
}
