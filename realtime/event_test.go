package realtime

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
)

var must = testkit.Must

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serverEvents holds one example of every server event of the protocol, one per line, with the names of the OpenAPI
// description and the fields in use.
func serverEvents(t testing.TB) [][]byte {
	t.Helper()
	file, err := os.ReadFile("testdata/server_events.jsonl")
	must(t, err)
	return bytes.Split(bytes.TrimSpace(file), []byte("\n"))
}

// TestDecodeEveryServerEvent compares with encoding/json, field by field.
func TestDecodeEveryServerEvent(t *testing.T) {
	t.Parallel()
	for _, raw := range serverEvents(t) {
		e, err := Decode(raw)
		if err != nil || e.Malformed != nil {
			t.Errorf("decode %s: %v, %v", raw, err, e.Malformed)
			continue
		}
		var want struct {
			Type           string          `json:"type"`
			EventID        string          `json:"event_id"`
			ItemID         string          `json:"item_id"`
			PreviousItemID *string         `json:"previous_item_id"`
			ResponseID     string          `json:"response_id"`
			CallID         string          `json:"call_id"`
			Name           string          `json:"name"`
			Delta          string          `json:"delta"`
			Transcript     string          `json:"transcript"`
			Text           string          `json:"text"`
			ContentIndex   int             `json:"content_index"`
			AudioStartMS   int64           `json:"audio_start_ms"`
			AudioEndMS     int64           `json:"audio_end_ms"`
			Item           json.RawMessage `json:"item"`
			Response       json.RawMessage `json:"response"`
			Session        json.RawMessage `json:"session"`
			Usage          json.RawMessage `json:"usage"`
			Part           json.RawMessage `json:"part"`
			Error          *Error          `json:"error"`
		}
		must(t, json.Unmarshal(raw, &want))
		previous := ""
		if want.PreviousItemID != nil {
			previous = *want.PreviousItemID
		}
		expected := Event{
			Type: want.Type, EventID: want.EventID, ItemID: want.ItemID, PreviousItemID: previous,
			HasPrevious: bytes.Contains(raw, []byte(`"previous_item_id"`)), ResponseID: want.ResponseID, CallID: want.CallID,
			Name: want.Name, Delta: want.Delta, Transcript: want.Transcript, Text: want.Text,
			ContentIndex: want.ContentIndex, AudioStartMS: want.AudioStartMS,
			AudioEndMS: want.AudioEndMS, Item: want.Item, Response: want.Response, Session: want.Session,
			Usage: want.Usage, Part: want.Part, Error: want.Error, Raw: raw,
		}
		testkit.Equal(t, e, expected, "%s", e.Type)
	}
}

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	deep := func(n int) string {
		return `{"type":"x","a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	for name, tt := range map[string]struct {
		raw  string
		want error
	}{
		"empty":                {"", ErrNotJSON},
		"white space":          {" \n", ErrNotJSON},
		"text":                 {"hello", ErrNotJSON},
		"array":                {`[{"type":"x"}]`, ErrNotJSON},
		"string":               {`"type"`, ErrNotJSON},
		"null":                 {`null`, ErrNotJSON},
		"cut":                  {`{"type":"x"`, ErrNotJSON},
		"cut in a string":      {`{"type":"x`, ErrNotJSON},
		"cut in an escape":     {`{"type":"x\`, ErrNotJSON},
		"cut in a \\u":         {`{"type":"\u00`, ErrNotJSON},
		"bad \\u":              {`{"type":"\u00zz"}`, ErrNotJSON},
		"bad escape":           {`{"type":"\x"}`, ErrNotJSON},
		"trailing comma":       {`{"type":"x",}`, ErrNotJSON},
		"missing colon":        {`{"type" "x"}`, ErrNotJSON},
		"missing comma":        {`{"type":"x" "a":1}`, ErrNotJSON},
		"two objects":          {`{"type":"x"}{}`, ErrNotJSON},
		"single quotes":        {`{'type':'x'}`, ErrNotJSON},
		"number with a zero":   {`{"type":"x","a":01}`, ErrNotJSON},
		"number without end":   {`{"type":"x","a":1.}`, ErrNotJSON},
		"number without e":     {`{"type":"x","a":1e}`, ErrNotJSON},
		"only a minus":         {`{"type":"x","a":-}`, ErrNotJSON},
		"NaN":                  {`{"type":"x","a":NaN}`, ErrNotJSON},
		"half a literal":       {`{"type":"x","a":tru}`, ErrNotJSON},
		"control character":    {"{\"type\":\"a\x01\"}", ErrNotJSON},
		"invalid UTF-8":        {"{\"type\":\"\xff\"}", ErrNotJSON},
		"byte order mark":      {"\ufeff{\"type\":\"x\"}", ErrNotJSON},
		"comment":              {`{"type":"x"/**/}`, ErrNotJSON},
		"no type":              {`{"event_id":"e"}`, ErrNoType},
		"empty object":         {`{}`, ErrNoType},
		"empty type":           {`{"type":""}`, ErrNoType},
		"type null":            {`{"type":null}`, ErrNoType},
		"type number":          {`{"type":7}`, ErrNoType},
		"type of other case":   {`{"Type":"x"}`, ErrNoType},
		"last type is no type": {`{"type":"x","type":7}`, ErrNoType},
		"just deep enough":     {deep(63), nil},
		"too deep":             {deep(64), ErrTooDeep},
		"very deep":            {deep(1 << 20), ErrTooDeep},
		"open arrays":          {`{"type":"x","a":` + strings.Repeat("[", 1<<20), ErrTooDeep},
		"open objects":         {strings.Repeat(`{"a":`, 1<<20), ErrTooDeep},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := Decode([]byte(tt.raw))
			if !errors.Is(err, tt.want) || (tt.want == nil && err != nil) {
				t.Errorf("error is %v, want %v", err, tt.want)
			}
			if err != nil && e.Type != "" {
				t.Errorf("type %q beside an error", e.Type)
			}
		})
	}
}

func TestDecodeTolerates(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		raw  string
		want Event
	}{
		"unknown type":      {`{"type":"bridge.new","x":{"y":[1]}}`, Event{Type: "bridge.new"}},
		"white space":       {" {\n\t\"type\" : \"x\" ,\r \"item_id\" : \"i\" } ", Event{Type: "x", ItemID: "i"}},
		"nulls":             {`{"type":"x","event_id":null,"item":null,"content_index":null,"error":null,"delta":null}`, Event{Type: "x"}},
		"null previous":     {`{"type":"x","previous_item_id":null}`, Event{Type: "x", HasPrevious: true}},
		"missing previous":  {`{"type":"x"}`, Event{Type: "x"}},
		"duplicates":        {`{"type":"a","type":"b","delta":1,"delta":"d"}`, Event{Type: "b", Delta: "d"}},
		"escaped key":       {`{"\u0074ype":"x","item\u005fid":"i"}`, Event{Type: "x", ItemID: "i"}},
		"escapes":           {`{"type":"x","delta":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}`, Event{Type: "x", Delta: "\"\\/\b\f\n\r\té😀"}},
		"half surrogates":   {`{"type":"x","delta":"\ud83d!\ude00\ud83d\u0041"}`, Event{Type: "x", Delta: "\ufffd!\ufffd\ufffdA"}},
		"fractions":         {`{"type":"x","audio_end_ms":1.25e3,"audio_start_ms":99.9}`, Event{Type: "x", AudioEndMS: 1250, AudioStartMS: 99}},
		"negative zero":     {`{"type":"x","audio_end_ms":-0}`, Event{Type: "x"}},
		"other case":        {`{"type":"x","Delta":5,"DELTA":"no"}`, Event{Type: "x"}},
		"error as text":     {`{"type":"error","error":"boom"}`, Event{Type: "error", Error: &Error{Message: "boom"}}},
		"error of numbers":  {`{"type":"error","error":{"code":429,"message":null,"param":["a"]}}`, Event{Type: "error", Error: &Error{Code: "429", Param: `["a"]`}}},
		"error without all": {`{"type":"error","error":{}}`, Event{Type: "error", Error: &Error{}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Decode([]byte(tt.raw))
			must(t, err)
			tt.want.Raw = []byte(tt.raw)
			testkit.Equal(t, got, tt.want, "got")
		})
	}
}

func TestDecodeMalformed(t *testing.T) {
	t.Parallel()
	for _, field := range []string{
		"item_id", "previous_item_id", "response_id", "call_id", "name", "delta", "transcript", "text", "content_index",
		"audio_start_ms", "audio_end_ms", "item", "response", "session", "usage", "part", "error",
	} {
		for _, val := range []string{`true`, `[1]`, `[{}]`} {
			raw := []byte(`{"delta":"kept back","type":"x","event_id":"e","` + field + `":` + val + `}`)
			e, err := Decode(raw)
			if err != nil || e.Malformed == nil {
				t.Errorf("%s: error %v, malformed %v", raw, err, e.Malformed)
				continue
			}
			if !strings.Contains(e.Malformed.Error(), field) {
				t.Errorf("%q does not name %s", e.Malformed, field)
			}
			e.Malformed = nil
			testkit.Equal(t, e, Event{Type: "x", EventID: "e", Raw: raw}, "%s", raw)
		}
	}
	e, err := Decode([]byte(`{"type":"x","event_id":5}`))
	if err != nil || e.Malformed == nil || e.EventID != "" {
		t.Errorf("event id of a number: %+v, %v", e, err)
	}
}

// depth is the deepest nesting of valid JSON text.
func depth(raw []byte) int {
	deepest, now, inString := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// FuzzDecode checks Decode against encoding/json: both accept the same texts and find the same values.
func FuzzDecode(f *testing.F) {
	for _, raw := range serverEvents(f) {
		f.Add(raw)
	}
	for _, raw := range []string{
		``, `{}`, `{"type":"x","delta":"\ud83d\ude00\ud83d"}`, `{"type":"x","a":[[[[1e9]]]]}`, `{"type":1}`,
		`{"type":"x","content_index":1e400,"audio_end_ms":-1.5}`, "{\"type\":\"\xff\"}", `{"type":"a","type":"b"}`,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		e, err := Decode(raw)
		if !bytes.Equal(before, raw) {
			t.Fatal("input was changed")
		}
		valid := json.Valid(raw) && utf8.Valid(raw) && bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{"))
		switch {
		case errors.Is(err, ErrNotJSON):
			if valid {
				t.Fatalf("refused valid JSON %q", raw)
			}
			return
		case errors.Is(err, ErrTooDeep):
			if valid && depth(raw) <= maxDepth {
				t.Fatalf("depth of %q is %d", raw, depth(raw))
			}
			return
		case !valid || depth(raw) > maxDepth:
			t.Fatalf("accepted %q (%v)", raw, err)
		}
		var want map[string]any
		oracle := json.NewDecoder(bytes.NewReader(raw))
		oracle.UseNumber()
		must(t, oracle.Decode(&want))
		kind, _ := want["type"].(string)
		if (err != nil) != (kind == "") || e.Type != kind {
			t.Fatalf("type of %q is %q, error %v", raw, e.Type, err)
		}
		if err != nil || e.Malformed != nil {
			return
		}
		for name, got := range map[string]string{
			"event_id": e.EventID, "item_id": e.ItemID, "previous_item_id": e.PreviousItemID, "response_id": e.ResponseID,
			"call_id": e.CallID, "name": e.Name, "delta": e.Delta, "transcript": e.Transcript, "text": e.Text,
		} {
			if s, _ := want[name].(string); s != got {
				t.Fatalf("%s of %q is %q", name, raw, got)
			}
		}
		for name, got := range map[string]json.RawMessage{
			"item": e.Item, "response": e.Response, "session": e.Session, "usage": e.Usage, "part": e.Part,
		} {
			if _, isObject := want[name].(map[string]any); isObject != (got != nil) {
				t.Fatalf("%s of %q is %q", name, raw, got)
			}
			if got != nil && !json.Valid(got) {
				t.Fatalf("%s is cut: %q", name, got)
			}
		}
	})
}

// FuzzDecodeParts feeds the decoders of an event's parts.
func FuzzDecodeParts(f *testing.F) {
	for _, raw := range serverEvents(f) {
		if e, err := Decode(raw); err == nil {
			for _, part := range []json.RawMessage{e.Item, e.Response, e.Usage, e.Session} {
				if part != nil {
					f.Add([]byte(part))
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if it, err := DecodeItem(raw); err == nil {
			again, err := DecodeItem(mustMarshal(t, it))
			if err != nil {
				t.Fatalf("item of %q does not decode again: %v", raw, err)
			}
			if utf8.Valid(raw) && again.Text() != it.Text() {
				t.Fatalf("text changed from %q to %q", it.Text(), again.Text())
			}
		}
		if r, err := DecodeResponse(raw); err == nil && r.Usage != nil && !json.Valid(r.Usage.Raw) {
			t.Fatalf("usage of %q is no JSON", raw)
		}
		event := append(append([]byte(`{"type":"session.created","session":`), raw...), '}')
		if out, err := RedactSession(event, func(string) bool { return false }); err == nil && json.Valid(event) && !json.Valid(out) {
			t.Fatalf("redacted %q to %q", event, out)
		}
	})
}

func mustMarshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return b
}
