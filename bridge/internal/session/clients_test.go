package session

import (
	"cmp"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/realtime"
)

// TestLongEventID counts characters, as the API does.
func TestLongEventID(t *testing.T) {
	t.Parallel()
	for length, param := range map[int]string{realtime.MaxEventID: "item_id", realtime.MaxEventID + 1: "event_id"} {
		c := newScripted(t, "")
		c.play(`br {"type":"conversation.item.retrieve","item_id":"x","event_id":"` + strings.Repeat("é", length) + `"}`)
		if want := `"param":"` + param + `"`; !strings.Contains(c.out.String(), want) {
			t.Errorf("%d characters: %s is not in %s", length, want, &c.out)
		}
	}
}

// TestJoinDuringAStorageFault reloads the page while changes wait for the database: the new one is told, too.
func TestJoinDuringAStorageFault(t *testing.T) {
	t.Parallel()
	c := limited(t, Config{})
	c.reduce(StorageDelayed{Pending: 3})
	c.play("br joins")
	c.reduce(StorageDelayed{})
	c.play("br joins")
	out := c.out.String()
	if n, m := strings.Count(out, `"pending":3,"type":"bridge.storage.delayed"`), strings.Count(out, "bridge.storage.recovered"); n != 2 || m != 1 {
		t.Errorf("told %d times of the delay, %d times of its end:\n%s", n, m, out)
	}
}

// TestEarlyEvents has a client send more before the session is ready than is held for it.
func TestEarlyEvents(t *testing.T) {
	t.Parallel()
	c := newScripted(t, "")
	for range 66 {
		c.play(`br {"type":"response.create","event_id":"b1"}`)
	}
	testkit.Equal(t, strings.Count(c.out.String(), "too_many_events"), 2, "events were refused")
}

// TestLargeResponse asks for a response with more than any upstream needs, which might end its session.
func TestLargeResponse(t *testing.T) {
	t.Parallel()
	for _, event := range []string{
		`{"type":"response.create","event_id":"b1","response":{"metadata":{"k":"` + strings.Repeat("x", MaxInputText) + `"}}}`,
		`{"type":"response.cancel","event_id":"b1","response_id":"` + strings.Repeat("x", MaxInputText+1) + `"}`,
	} {
		c := newScripted(t, "")
		c.play(`up {"type":"session.updated","session":{"type":"realtime"}}`)
		c.out.Reset()
		c.play("br " + event)
		if out := c.out.String(); !strings.Contains(out, `"code":"event_too_large","event_id":"b1"`) || strings.Contains(out, "→up") {
			t.Errorf("%.40s: %.500s", event, out)
		}
	}
}

// TestImageEvents shows events of a typed image to the browser as they came, and without the image only if they are
// too large for it.
func TestImageEvents(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 70 << 10} {
		c := newScripted(t, "")
		c.play(`up {"type":"session.updated","session":{"type":"realtime"}}`)
		c.out.Reset()
		url := "data:image/png;base64," + strings.Repeat("A", size)
		c.play(`up {"type":"conversation.item.added","previous_item_id":null,"item":{"id":"i1","type":"message","role":"user","content":[{"type":"input_image","image_url":"` + url + `"}]}}`)
		if out := c.out.String(); strings.Contains(out, "→br as it came") != (len(url) < c.s.BrowserLimit) || !strings.Contains(out, "→br") {
			t.Errorf("%d bytes: %.500s", size, out)
		}
	}
}

// TestTextSentBothWays sends a text by the data channel and, as a client does that does not know whether it arrived, by
// HTTP under the same id. It is said once, whichever comes first, also while the session is being set up.
func TestTextSentBothWays(t *testing.T) {
	t.Parallel()
	const create = `br {"type":"conversation.item.create","event_id":"b1","item":{"id":"mine","type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]}}`
	const ready = `up {"type":"session.created","event_id":"e1","session":{"type":"realtime"}}
		up {"type":"session.updated","event_id":"e2","session":{"type":"realtime"}}`
	again := ServerText{MessageID: persistence.OnceID("thread-1", "call-1/mine"), Text: "Hi"}
	for _, c := range []struct {
		name  string
		steps []any
	}{
		{"channel first", []any{"", create, again}},
		{"HTTP first", []any{"", again, create}},
		{"before the session", []any{create, again, ""}},
	} {
		s := newScripted(t, "")
		for _, step := range c.steps {
			switch step := step.(type) {
			case ServerText:
				s.reduce(step)
			case string:
				for line := range strings.Lines(cmp.Or(step, ready)) {
					s.play(strings.TrimSpace(line))
				}
			}
		}
		out := s.out.String()
		testkit.Equal(t, strings.Count(out, `"type":"conversation.item.create"`), 1, "%s: said times: %s", c.name, out)
	}
}

// TestTooLarge tells the browser about an event that was not read, unless another one has taken its place.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	c := newScripted(t, "")
	c.reduce(BrowserTooLarge{Gen: 0, Size: 70000})
	testkit.Equal(t, c.out.String(), "", "an earlier browser")
	c.reduce(BrowserTooLarge{Gen: 1, Size: 70000})
	if out := c.out.String(); !strings.Contains(out, `"code":"event_too_large"`) || !strings.Contains(out, "70000 bytes") {
		t.Errorf("told: %s", out)
	}
}

// TestResponseFields names the first field of a response that clients may not set.
func TestResponseFields(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		raw, want string
		who       realtime.Who
	}{
		{"", "", realtime.ByClient},
		{"{}", "", realtime.ByClient},
		{`{"metadata":{},"output_modalities":["text"],"max_output_tokens":1}`, "", realtime.ByClient},
		{`{"voice":"x","metadata":{},"instructions":"y"}`, "response.instructions", realtime.ByClient},
		{`{"tools":[]}`, "response.tools", realtime.ByClient},
		{`{"` + strings.Repeat("x", 100) + `":1}`, "response." + strings.Repeat("x", 64) + "…", realtime.ByClient},
		{`{"metadata":{},"instructions":"y","tools":[],"tool_choice":"none"}`, "", realtime.ByApp},
		{`{"instructions":"y","input":[]}`, "response.input", realtime.ByApp},
		{`{"xs":[]}`, "response.xs", realtime.ByApp},
	} {
		if fields, refused := readResponse([]byte(tt.raw), tt.who); refused != tt.want || (refused == "") != (len(fields) == strings.Count(tt.raw, `":`)) {
			t.Errorf("%.80s: %v, %q", tt.raw, fields, refused)
		}
	}
}

// TestSpokenMetadata has what is spoken in a call, by either side, name its model and its voice.
func TestSpokenMetadata(t *testing.T) {
	t.Parallel()
	c := newScripted(t, "")
	c.s.record.Model, c.s.record.Voice = "model-1", "marin"
	c.play(`up {"type":"session.updated","session":{"type":"realtime"}}`)
	c.play(`up {"type":"input_audio_buffer.committed","item_id":"i1","previous_item_id":null}`)
	c.play(`up {"type":"conversation.item.added","previous_item_id":"i1","item":{"id":"i2","type":"message","role":"assistant"}}`)
	c.play(`up {"type":"conversation.item.added","previous_item_id":"i2","item":{"id":"i3","type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]}}`)
	for id, want := range map[string]string{"i1": "voice model-1 marin", "i2": "voice model-1 marin", "i3": "text  "} {
		m := c.s.transcript.items[id].message.meta
		testkit.Equal(t, string(m.Source)+" "+m.Model+" "+m.Voice, want, "%s", id)
	}
}

// TestJoinSeesTheSessionAsItIs tells who joins a call the session with what has changed since it was created.
func TestJoinSeesTheSessionAsItIs(t *testing.T) {
	t.Parallel()
	c := newScripted(t, "")
	c.play(`up {"type":"session.created","event_id":"e1","session":{"type":"realtime","max_output_tokens":"inf"}}`)
	c.play(`up {"type":"session.updated","event_id":"e2","session":{"type":"realtime","max_output_tokens":77}}`)
	c.out.Reset()
	c.play("br joins")
	created, _, _ := strings.Cut(c.out.String(), `"session.updated"`)
	if !strings.Contains(created, `"session.created"`) || !strings.Contains(created, `"max_output_tokens":77`) || strings.Contains(created, `"inf"`) {
		t.Errorf("told:\n%s", &c.out)
	}
}
