package code

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"voicebridge/toolkit/clienttool"
)

func TestClientPlaces(t *testing.T) {
	t.Parallel()
	places := Config{Timeout: 3 * time.Second}.ClientPlaces()
	if len(places) != 2 || places[JavaScriptName].Timeout != 3*time.Second+patience || places[PythonName].Timeout != 3*time.Second+pythonStart {
		t.Errorf("got %+v", places)
	}
}

// A client's outcome gives the very result that the server's own tool gives.
func TestClientResult(t *testing.T) {
	t.Parallel()
	place := Config{}.ClientPlaces()[JavaScriptName]
	for name, o := range map[string]Outcome{
		"completed": {Stdout: "a <b>\n", Stderr: "é", Value: json.RawMessage(`{"n":42}`), DurationMs: 7, Exit: ExitCompleted},
		"no value":  {Exit: ExitCompleted},
		"long":      {Stdout: strings.Repeat("x", 10000), Value: json.RawMessage(`"` + strings.Repeat("y", 10000) + `"`), Exit: ExitCompleted},
		"thrown":    {Stdout: "before\n", Error: "TypeError: no", Exit: ExitException, DurationMs: 1},
		"timeout":   {Stdout: strings.Repeat("x", 10000), Error: "the program ran longer than 10s and was stopped", Exit: ExitTimeout},
		"flood":     {Stdout: "\x00\u2028", Error: "too much", Exit: ExitOutputLimit},
	} {
		want := o.result("JavaScript")
		got := place.Result(string(want.Output))
		if string(got.Output) != string(want.Output) || got.Error != want.Error || got.Model != want.Model {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

func TestClientResultOfHostileAnswers(t *testing.T) {
	t.Parallel()
	place := Config{}.ClientPlaces()[PythonName]
	for _, output := range []string{
		``, `42`, `null`, `[]`, `"exit"`, `{}`, `{"exit":"completed"}`, `{"stdout":"x"}`, `{"exit":"root","stdout":""}`, `{"exit":7,"stdout":""}`,
		`{"exit":"completed","stdout":7}`, `{"exit":"completed","stdout":"","durationMs":"long"}`, `{"exit":"completed","stdout":""`, "\xff",
	} {
		want := clienttool.Answer(output)
		if got := place.Result(output); string(got.Output) != string(want.Output) || got.Model != want.Model || got.Failed() {
			t.Errorf("%q: got %+v, want it as it is", output, got)
		}
	}
	for output, want := range map[string]string{
		`{"exit":"completed","stdout":"x","error":"no","durationMs":-5,"more":1}`: `{"stdout":"x","stderr":"","value":null,"durationMs":0,"exit":"completed"}`,
		`{"exit":"timeout","stdout":""}`:                                          `{"stdout":"","stderr":"","value":null,"durationMs":0,"exit":"timeout","error":"it gave no reason"}`,
		`{"exit":"completed","stdout":"","value":` + strings.Repeat("[", 61) + strings.Repeat("]", 61) + `}`: `{"stdout":"","stderr":"","value":"` +
			strings.Repeat("[", 61) + strings.Repeat("]", 61) + `","durationMs":0,"exit":"completed"}`,
	} {
		got := place.Result(output)
		if string(got.Output) != want || got.Failed() != strings.Contains(want, "error") {
			t.Errorf("%s: got %s, error %q", output, got.Output, got.Error)
		}
	}
}
