package thread

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
)

var must = testkit.Must

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	for into, data := range map[*any][]byte{&x: a, &y: b} {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber() // some numbers fit no type
		if err := d.Decode(into); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
	}
	return reflect.DeepEqual(x, y)
}

// Every kind of part of the AI SDK survives a round trip.
func TestPartsKeepTheirForm(t *testing.T) {
	t.Parallel()
	for _, part := range []string{
		`{"type":"text","text":"<b>&\u2028"}`,
		`{"type":"text","text":"x","state":"done","providerMetadata":{"a":{"b":1}}}`,
		`{"type":"step-start"}`,
		`{"type":"reasoning","text":"hm","state":"done"}`,
		`{"type":"file","mediaType":"image/png","url":"data:,"}`,
		`{"type":"source-url","sourceId":"1","url":"https://x"}`,
		`{"type":"data-weather","id":"1","data":{"c":1.5}}`,
		`{"type":"tool-bar_chart","toolCallId":"1","state":"input-available","input":{"a":[1]}}`,
		`{"type":"tool-bar_chart","toolCallId":"1","state":"output-available","input":null,"output":null}`,
		`{"type":"tool-bar_chart","toolCallId":"1","state":"output-available","input":{},"output":[{}],"preliminary":true}`,
		`{"type":"tool-bar_chart","toolCallId":"1","state":"output-error","errorText":"","rawInput":"{"}`,
		`{"type":"tool-x","toolCallId":"1","state":"approval-requested","input":{},"approval":{"id":"2"}}`,
		`{"type":"dynamic-tool","toolName":"srv_x","toolCallId":"1","state":"output-error","input":{},"errorText":"no"}`,
		`{"type":"dynamic-tool","toolName":"x","toolCallId":"1","state":"output-available","output":"","callProviderMetadata":{}}`,
		`{"type":"of-the-future","TYPE":"x","n":123456789012345678}`,
	} {
		var p Part
		if err := json.Unmarshal([]byte(part), &p); err != nil {
			t.Errorf("Unmarshal(%s) = %v", part, err)
			continue
		}
		got, err := json.Marshal(p)
		if err != nil || !sameJSON(t, []byte(part), got) {
			t.Errorf("%s became %s, %v", part, got, err)
		}
	}
}

func TestPartFields(t *testing.T) {
	t.Parallel()
	var p Part
	must(t, json.Unmarshal([]byte(`{"type":"tool-a-b","toolCallId":"1","state":"output-available","input":{"x":1},"output":2}`), &p))
	want := ToolPart("a-b")
	want.ToolCallID, want.State = "1", ToolOutputAvailable
	want.Input, want.Output = json.RawMessage(`{"x":1}`), json.RawMessage("2")
	if !reflect.DeepEqual(p, want) {
		t.Errorf("the part is %+v, want %+v", p, want)
	}
	// The fields win over the raw data that was read.
	must(t, json.Unmarshal([]byte(`{"type":"text","text":"old","more":1}`), &p))
	p.Text = "new"
	if got, err := json.Marshal(p); err != nil || !sameJSON(t, []byte(`{"type":"text","text":"new","more":1}`), got) {
		t.Errorf("Marshal() = %s, %v", got, err)
	}
}

func TestBadParts(t *testing.T) {
	t.Parallel()
	for _, part := range []string{
		`null`, `[]`, `"x"`, `{}`, `{"type":""}`, `{"type":1}`, `{"type":"text","text":1}`,
		`{"type":"tool-x","toolCallId":1}`, `{"type":"dynamic-tool","toolName":{}}`, `{"type":"tool-x","state":[]}`,
	} {
		var p Part
		if err := json.Unmarshal([]byte(part), &p); err == nil {
			t.Errorf("Unmarshal(%s) = nil, %+v", part, p)
		}
	}
}

func TestMetadataForm(t *testing.T) {
	t.Parallel()
	for _, meta := range []string{
		`{}`,
		`{"source":"voice","status":"completed","call_id":"c","model":"m","voice":"v","created_at":"2026-01-02T15:04:05.006Z",
			"usage":{"x":1},"latency_ms":{"a":1},"heard_text":"","audio_end_ms":0,"item_id":"i","seq":3}`,
		`{"mine":{"a":[1]},"Model":"kept apart"}`,
	} {
		var m Metadata
		if err := json.Unmarshal([]byte(meta), &m); err != nil {
			t.Errorf("Unmarshal(%s) = %v", meta, err)
			continue
		}
		if got, err := json.Marshal(m); err != nil || !sameJSON(t, []byte(meta), got) {
			t.Errorf("%s became %s, %v", meta, got, err)
		}
		if strings.Contains(meta, "mine") && (m.Model != "" || len(m.Extra) != 2) {
			t.Errorf("metadata is %+v", m)
		}
	}
	for _, meta := range []string{`[]`, `{"seq":"1"}`, `{"created_at":"now"}`} {
		var m Metadata
		if err := json.Unmarshal([]byte(meta), &m); err == nil {
			t.Errorf("Unmarshal(%s) = nil", meta)
		}
	}
}

func TestMessageForm(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(Message{ID: "1", Role: RoleUser, Seq: 7, Revision: 8})
	if want := `{"id":"1","role":"user","parts":[],"metadata":{}}`; err != nil || string(got) != want {
		t.Errorf("Marshal() = %s, %v, want %s", got, err, want)
	}
	m := Message{Parts: []Part{
		StepStart(), TextPart("a"), ToolPart("x"), TextPart(""), TextPart("b"),
	}}
	testkit.Equal(t, m.Text(), "a\nb", "Text()")
}

// Whatever a client or a tool sends: a message that can be read can be written, and then
// reads the same.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"id":"1","role":"user","parts":[{"type":"text","text":"x","y":[1]},{"type":"z"}],"metadata":{"a":1,"usage":{}}}`))
	f.Add([]byte(`{"parts":[{"type":"tool-x","toolCallId":"\u0000\ud800","state":"output-error","input":1e999,"errorText":"\\u0000"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m Message
		if json.Unmarshal(data, &m) != nil {
			return
		}
		_ = m.Validate()
		once, err := json.Marshal(m)
		if err != nil {
			return // a raw part that is not an object
		}
		var back Message
		if err := json.Unmarshal(once, &back); err != nil {
			t.Fatalf("%s cannot be read: %v", once, err)
		}
		twice, err := json.Marshal(back)
		if err != nil || !sameJSON(t, once, twice) {
			t.Fatalf("%s became %s, %v", once, twice, err)
		}
	})
}
