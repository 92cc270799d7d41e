package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	const pass = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
`
	const packagePass = `{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p","Elapsed":0.1}
`
	tests := []struct {
		name, in string
		ok       bool
		says     []string
		not      string
		alone    string
	}{
		{
			name: "all pass", in: pass + packagePass, ok: true,
			says: []string{"ok  \tp\t0.100s", "1 passed, 0 failed, 0 skipped"}, not: "chatter",
		},
		{
			name: "a failed test shows its output",
			in: pass + `{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":0}
{"Action":"fail","Package":"p","Elapsed":0.1}
`,
			says: []string{"--- FAIL: p TestB", "got 1, want 2", "FAIL\tp", "1 passed, 1 failed, 0 skipped"}, alone: "p TestB\n",
		},
		{
			name: "subtests are run again as one test",
			in: pass + `{"Action":"fail","Package":"p","Test":"TestB/one","Elapsed":0}
{"Action":"fail","Package":"p","Test":"TestB/two","Elapsed":0}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":0}
{"Action":"fail","Package":"p","Elapsed":0.1}
`,
			says: []string{"1 passed, 3 failed"}, alone: "p TestB\n",
		},
		{
			name: "a race is no chance",
			in: pass + `{"Action":"output","Package":"p","Test":"TestB","Output":"WARNING: DATA RACE\n"}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":0}
{"Action":"fail","Package":"p","Elapsed":0.1}
`,
			says: []string{"--- FAIL: p TestB", "DATA RACE"},
		},
		{
			name: "nor are four failures",
			in: pass + `{"Action":"fail","Package":"p","Test":"TestB","Elapsed":0}
{"Action":"fail","Package":"p","Test":"TestC","Elapsed":0}
{"Action":"fail","Package":"p","Test":"TestD","Elapsed":0}
{"Action":"fail","Package":"p","Test":"TestE","Elapsed":0}
{"Action":"fail","Package":"p","Elapsed":0.1}
`,
			says: []string{"1 passed, 4 failed"},
		},
		{
			name: "a skipped test fails with its reason",
			in: pass + `{"Action":"output","Package":"p","Test":"TestPG","Output":"=== RUN   TestPG\n"}
{"Action":"output","Package":"p","Test":"TestPG","Output":"    pg_test.go:3: no PostgreSQL\n"}
{"Action":"output","Package":"p","Test":"TestPG","Output":"--- SKIP: TestPG (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestPG"}
` + packagePass,
			says: []string{"SKIPPED: p TestPG: pg_test.go:3: no PostgreSQL", "1 passed, 0 failed, 1 skipped"},
		},
		{
			name: "a test that hangs is named, with all stacks",
			in: pass + `{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestB","Output":"panic: test timed out after 10m0s\n"}
` + strings.Repeat(`{"Action":"output","Package":"p","Test":"TestB","Output":"goroutine\n"}`+"\n", 1000) +
				`{"Action":"fail","Package":"p","Test":"TestB","Elapsed":600}
{"Action":"fail","Package":"p","Elapsed":600}
`,
			says: []string{"--- FAIL: p TestB", "timed out", strings.Repeat("goroutine\n", 1000), "1 passed, 1 failed"},
		},
		{
			name: "so is one whose program was killed",
			in: `{"Action":"start","Package":"p"}
` + pass + `{"Action":"run","Package":"p","Test":"TestB"}
`,
			says: []string{"NEVER ENDED: p TestB", "NEVER ENDED: p\n", "1 passed, 2 failed"},
		},
		{
			name: "a build failure",
			in: `{"ImportPath":"q","Action":"build-output","Output":"q.go:3:1: undefined: x\n"}
{"ImportPath":"q","Action":"build-fail"}
{"Action":"fail","Package":"q","Elapsed":0}
` + pass + packagePass,
			says: []string{"undefined: x", "[build failed]", "1 passed, 1 failed"},
		},
		{
			name: "a panic outside of a test that ended",
			in: pass + `{"Action":"output","Package":"p","Test":"TestC","Output":"panic: boom\n"}
{"Action":"fail","Package":"p","Elapsed":0}
`,
			says: []string{"panic: boom", "1 passed, 1 failed"},
		},
		{
			name: "a leak found after the tests",
			in: pass + `{"Action":"output","Package":"p","Output":"goleak: found unexpected goroutines\n"}
{"Action":"fail","Package":"p","Elapsed":0}
`,
			says: []string{"found unexpected goroutines", "1 passed, 1 failed"},
		},
		{
			name: "a long failure says at both ends how it begins",
			in: `{"Action":"output","Package":"p","Test":"TestD","Output":"    d_test.go:7: want 1\n"}` + "\n" +
				strings.Repeat(`{"Action":"output","Package":"p","Test":"TestD","Output":"chatter\n"}`+"\n", 300) +
				`{"Action":"output","Package":"p","Test":"TestD","Output":"the last line\n"}
{"Action":"fail","Package":"p","Test":"TestD","Elapsed":0}
{"Action":"fail","Package":"p","Elapsed":0.1}
`,
			alone: "p TestD\n",
			says:  []string{"--- FAIL: p TestD (0.00s)\n    d_test.go:7: want 1\n", "… 122 lines are left out …", "the last line", "FAILED: p TestD\n    d_test.go:7: want 1\n"},
		},
		{
			name: "no test at all", in: `{"Action":"skip","Package":"p"}` + "\n",
			says: []string{"[no test files]", "No test ran.", "0 passed, 0 failed"},
		},
		{
			name: "nothing", in: "", says: []string{"No test ran."},
		},
		{
			name: "plain lines pass through", in: "go: updates to go.mod needed\n" + pass + packagePass, ok: true,
			says: []string{"go: updates to go.mod needed", "1 passed"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			r, ok, err := run(strings.NewReader(tt.in), &out)
			if got := strings.Join(r.alone(), ""); got != tt.alone {
				t.Errorf("to be run alone: %q, want %q", got, tt.alone)
			}
			if err != nil || ok != tt.ok {
				t.Errorf("run = %v, %v; want %v\n%s", ok, err, tt.ok, out.String())
			}
			for _, want := range tt.says {
				if !strings.Contains(out.String(), want) {
					t.Errorf("report lacks %q:\n%s", want, out.String())
				}
			}
			if tt.not != "" && strings.Contains(out.String(), tt.not) {
				t.Errorf("report has %q:\n%s", tt.not, out.String())
			}
		})
	}
}
