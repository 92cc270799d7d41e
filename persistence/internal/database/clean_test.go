package database

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"voicebridge/thread"
)

// Cleaned data is still valid JSON, contains nothing that jsonb refuses, and is not
// changed by a second cleaning.
func FuzzCleanJSON(f *testing.F) {
	for _, s := range []string{
		`{"a\u0000":"\ud800\ud800\udc00\\u0000\"","n":[-1.5e+3,1e999999,0]}`, `"\\\u0000\\"`, `"\ud83d\ude00"`, `[[[]]]`, `"` + "\xff" + `"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			thread.Depth(data)
			return
		}
		got := CleanJSON(data)
		if !json.Valid(got) || !utf8.Valid(got) {
			t.Fatalf("%q became %q", data, got)
		}
		var text string
		if json.Unmarshal(got, &text) == nil && bytes.ContainsRune([]byte(text), 0) {
			t.Fatalf("%q became %q, with a NUL", data, got)
		}
		if again := CleanJSON(got); !bytes.Equal(again, got) {
			t.Fatalf("%q became %q and then %q", data, got, again)
		}
	})
}
