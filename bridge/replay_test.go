package bridge

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"voicebridge/bridge/internal/session"
	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// counter makes item ids i1, i2, …
func counter() func() string {
	n := 0
	return func() string { n++; return fmt.Sprintf("i%d", n) }
}

func text(s string) thread.Part { return thread.Part{Type: "text", Text: s} }

func TestReplayItems(t *testing.T) {
	t.Parallel()
	interrupted := func(s string) thread.Metadata {
		return thread.Metadata{Status: thread.StatusInterrupted, HeardText: &s}
	}
	msg := func(id, role, kind string, words ...string) realtime.Item {
		it := realtime.Item{ID: id, Type: realtime.ItemMessage, Role: role}
		for _, w := range words {
			it.Content = append(it.Content, realtime.Content{Type: kind, Text: w})
		}
		return it
	}
	call := func(id, call, name, arguments string) realtime.Item {
		return realtime.Item{ID: id, Type: realtime.ItemFunctionCall, CallID: call, Name: name, Arguments: arguments}
	}
	output := func(id, call, out string) realtime.Item {
		return realtime.Item{ID: id, Type: realtime.ItemFunctionCallOutput, CallID: call, Output: out}
	}
	tool := func(name, id string, state thread.ToolState, in, out string) thread.Part {
		p := thread.ToolPart(name)
		p.ToolCallID, p.State = id, state
		if in != "" {
			p.Input = json.RawMessage(in)
		}
		if out != "" {
			p.Output = json.RawMessage(out)
		}
		return p
	}
	const user, assistant, system = thread.RoleUser, thread.RoleAssistant, thread.RoleSystem
	for name, tt := range map[string]struct {
		in   []thread.Message
		want []realtime.Item
	}{
		"roles": {
			[]thread.Message{{Role: system, Parts: []thread.Part{text("be kind")}}, {Role: user, Parts: []thread.Part{text("hi"), text("you")}}, {Role: assistant, Parts: []thread.Part{text("hello")}}},
			[]realtime.Item{msg("i1", "system", realtime.ContentInputText, "be kind"), msg("i2", "user", realtime.ContentInputText, "hi", "you"), msg("i3", "assistant", realtime.ContentOutputText, "hello")},
		},
		"nothing said": {[]thread.Message{{Role: user}, {Role: user, Parts: []thread.Part{text(" \n")}}, {Role: "tool", Parts: []thread.Part{text("x")}}, {Role: user, Parts: []thread.Part{{Type: "file"}}}}, nil},
		"parts in order": {
			[]thread.Message{{Role: assistant, Parts: []thread.Part{
				{Type: "step-start"}, text("let me see"),
				tool("create_bar_chart", "call_1", thread.ToolOutputAvailable, `{"title":"T"}`, `{"status":"success","message":"made","chartId":"c1","chartData":{"data":[1,2]}}`),
				{Type: "step-start"}, text("here it is"),
			}}},
			[]realtime.Item{
				msg("i1", "assistant", realtime.ContentOutputText, "let me see"), call("i2", "call_1", "create_bar_chart", `{"title":"T"}`),
				output("i3", "call_1", `{"summary":"made","chartId":"c1"}`), msg("i4", "assistant", realtime.ContentOutputText, "here it is"),
			},
		},
		"tool states": {
			[]thread.Message{{Role: assistant, Parts: []thread.Part{
				{Type: "dynamic-tool", ToolName: "files__read", ToolCallID: "a", State: thread.ToolOutputAvailable, Output: json.RawMessage(`"words & <b>"`)},
				{Type: "dynamic-tool", ToolName: "files__read", ToolCallID: "b", State: thread.ToolOutputError, ErrorText: `no "file"`},
				{Type: "tool-x", ToolName: "x", ToolCallID: "c", State: thread.ToolInputAvailable, Input: json.RawMessage(`{"cut":`)},
				{Type: "tool-x", ToolName: "x", ToolCallID: "d", State: thread.ToolOutputAvailable},
			}}},
			[]realtime.Item{
				call("i1", "a", "files__read", "{}"), output("i2", "a", "words & <b>"), call("i3", "b", "files__read", "{}"), output("i4", "b", `{"error":"no \"file\""}`),
				call("i5", "c", "x", "{}"), output("i6", "c", noResult), call("i7", "d", "x", "{}"), output("i8", "d", "null"),
			},
		},
		"tool of a user": {[]thread.Message{{Role: user, Parts: []thread.Part{{Type: "tool-x", ToolName: "x", ToolCallID: "c"}, text("hi")}}}, []realtime.Item{msg("i1", "user", realtime.ContentInputText, "hi")}},
		"odd names and ids": {
			[]thread.Message{{Role: assistant, Parts: []thread.Part{
				{Type: "tool-a b/ü", ToolName: "a b/ü", ToolCallID: strings.Repeat("x", 33)}, {Type: "dynamic-tool", ToolName: strings.Repeat("n", 70), ToolCallID: "ok"},
				{Type: "dynamic-tool", ToolCallID: "ok"},
			}}},
			[]realtime.Item{
				call("i1", hashID(strings.Repeat("x", 33)), "a_b__", "{}"), output("i2", hashID(strings.Repeat("x", 33)), noResult),
				call("i3", "ok", strings.Repeat("n", 64), "{}"), output("i4", "ok", noResult), call("i5", hashID("ok#0"), "unknown", "{}"), output("i6", hashID("ok#0"), noResult),
			},
		},
		"heard a part": {
			[]thread.Message{{Role: assistant, Parts: []thread.Part{text("One two three. "), text("Four five.")}, Metadata: interrupted("One two three. Four")}},
			[]realtime.Item{msg("i1", "assistant", realtime.ContentOutputText, "One two three.", "Four")},
		},
		"heard nothing": {[]thread.Message{{Role: assistant, Parts: []thread.Part{text("One two."), {Type: "tool-x", ToolName: "x", ToolCallID: "c"}}, Metadata: interrupted("")}}, []realtime.Item{call("i1", "c", "x", "{}"), output("i2", "c", noResult)}},
		"heard otherwise": {
			[]thread.Message{{Role: assistant, Parts: []thread.Part{text("One two three."), text("Four.")}, Metadata: interrupted("one, two")}},
			[]realtime.Item{msg("i1", "assistant", realtime.ContentOutputText, "one, two")},
		},
		"interrupted text turn": {
			[]thread.Message{{Role: assistant, Parts: []thread.Part{text("so far")}, Metadata: thread.Metadata{Status: thread.StatusInterrupted}}},
			[]realtime.Item{msg("i1", "assistant", realtime.ContentOutputText, "so far")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Equal(t, replayItems(tt.in, 256<<10, counter()), tt.want, "replayItems(tt.in, 256<<10, counter())")
		})
	}
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// TestReplayable checks that messages of which a model learns nothing are not counted as replayed.
func TestReplayable(t *testing.T) {
	t.Parallel()
	unheard := ""
	discarded := thread.Metadata{Extra: map[string]json.RawMessage{thread.MetadataDiscarded: json.RawMessage("true")}}
	said := func(id string, m thread.Metadata, parts ...thread.Part) thread.Message {
		return thread.Message{ID: id, Role: thread.RoleAssistant, Metadata: m, Parts: append([]thread.Part{thread.StepStart()}, parts...)}
	}
	var got []string
	for _, m := range replayable([]thread.Message{
		{ID: "failed transcription", Role: thread.RoleUser, Metadata: thread.Metadata{Status: thread.StatusFailed}, Parts: []thread.Part{text("")}},
		{ID: "image", Role: thread.RoleUser, Parts: []thread.Part{{Type: "file"}}},
		said("not heard", thread.Metadata{Status: thread.StatusInterrupted, HeardText: &unheard}, text("Once upon")),
		said("tool", thread.Metadata{}, thread.Part{Type: "tool-f", ToolCallID: "c"}),
		said("being written", thread.Metadata{Status: thread.StatusInProgress}, text("Once")),
		said("words", thread.Metadata{}, text("Once upon")),
		said("replaced", discarded, text("Twice")),
	}) {
		got = append(got, m.ID)
	}
	testkit.Equal(t, got, []string{"image", "tool", "words"}, "got")
}

// TestLastMessages reads past messages that were discarded.
func TestLastMessages(t *testing.T) {
	t.Parallel()
	store := persistencetest.SQLite(t)
	key := persistencetest.NewThread(t, store, "alice", "")
	for i := range 9 {
		m := thread.Message{ID: fmt.Sprint("m", i), Role: thread.RoleUser, Parts: []thread.Part{text("hello")}}
		if i > 3 && i < 8 {
			m.Metadata.Extra = map[string]json.RawMessage{thread.MetadataDiscarded: json.RawMessage("true")}
		}
		if _, err := persistencetest.AppendMessage(t.Context(), store, key, m); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range map[int]string{1: "m8", 3: "m2 m3 m8", 20: "m0 m1 m2 m3 m8"} {
		messages, err := lastMessages(t.Context(), store, key, n)
		var got []string
		for _, m := range messages {
			got = append(got, m.ID)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("the last %d are %q, %v, want %q", n, got, err, want)
		}
	}
}

// TestReplayItemsProperties builds random threads, some of them hostile, and checks what
// must hold for every replay.
func TestReplayItemsProperties(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 2))
		msgs := randomThread(r)
		items := replayItems(msgs, 256<<10, counter())
		checkItems(t, seed, items)
		if t.Failed() {
			return
		}
	}
}

// TestReplayItemsFit has words and arguments of all sizes and an upstream that accepts 64
// KiB: each event fits, and no call is without its output.
func TestReplayItemsFit(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	for _, size := range []int{10, 60 << 10, limit - aroundItem, limit, 100 << 10, 300 << 10} {
		for _, letter := range []string{"a", "\"", "a\u2028", "é"} {
			words := strings.Repeat(letter, size/len(letter))
			input, err := json.Marshal(map[string]string{"code": words})
			testkit.Must(t, err)
			items := replayItems([]thread.Message{
				{Role: thread.RoleUser, Parts: []thread.Part{text(words), text(words)}},
				{Role: thread.RoleAssistant, Parts: []thread.Part{{
					Type: "dynamic-tool", ToolName: strings.Repeat("n", 100), ToolCallID: strings.Repeat("c", 100),
					State: thread.ToolOutputAvailable, Input: input, Output: input,
				}}},
			}, limit, counter())
			if len(items) != 3 {
				t.Fatalf("%d bytes of %q: %d items", size, letter, len(items))
			}
			for _, it := range items {
				if n := len(realtime.ItemCreate(strings.Repeat("e", 64), it, "")); n > limit {
					t.Errorf("%d bytes of %q: %s is an event of %d bytes", size, letter, it.Type, n)
				}
			}
		}
	}
}

// TestImagesFit has two images of the browser for an upstream that accepts 64 KiB: the model is shown both, and so is
// that of the next call.
func TestImagesFit(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	store := persistencetest.SQLite(t)
	i := images{store: store, key: persistencetest.NewThread(t, store, "owner", ""), limit: new(atomic.Int64), log: slog.New(slog.DiscardHandler)}
	i.limit.Store(limit)
	noise := image.NewGray(image.Rect(0, 0, 240, 240))
	for n := range noise.Pix {
		noise.Pix[n] = uint8(rand.IntN(256))
	}
	var data bytes.Buffer
	testkit.Must(t, png.Encode(&data, noise))
	part := `{"type":"input_image","image_url":"data:image/png;base64,` + base64.StdEncoding.EncodeToString(data.Bytes()) + `"}`
	in := i.keep(session.BrowserEvent{Data: []byte(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[` + part + `,` + part + `]}}`)})
	if len(in.Images) != 2 || in.Images[0].URL == "" || in.Images[1].URL == "" || len(in.Images[0].URL)+len(in.Images[1].URL) > limit {
		t.Errorf("the browser's event has %d images, %q", len(in.Images), in.BadImage)
	}
	saved := thread.Message{Role: thread.RoleUser}
	for _, image := range in.Images {
		saved.Parts = append(saved.Parts, image.Part)
	}
	items := replayItems(i.replayed(t.Context(), []thread.Message{saved}), limit, counter())
	if len(items) != 1 || len(items[0].Content) != 2 || len(realtime.ItemCreate("", items[0], "")) > limit {
		t.Errorf("replayed: %.300v", items)
	}
}

func checkItems(t *testing.T, seed uint64, items []realtime.Item) {
	t.Helper()
	ids, calls := map[string]bool{}, map[string]bool{}
	for i, it := range items {
		if !idPattern.MatchString(it.ID) || ids[it.ID] {
			t.Errorf("seed %d: item id %q is bad or used twice", seed, it.ID)
		}
		ids[it.ID] = true
		event := realtime.ItemCreate("event", it, items[max(0, i-1)].ID)
		if len(event) > 200<<10 {
			t.Errorf("seed %d: event of %d bytes", seed, len(event))
		}
		if e, err := realtime.Decode(event); err != nil || e.Malformed != nil {
			t.Errorf("seed %d: event does not decode: %v", seed, err)
		}
		switch it.Type {
		case realtime.ItemFunctionCall:
			if !idPattern.MatchString(it.CallID) || calls[it.CallID] || !json.Valid([]byte(it.Arguments)) || it.Name == "" || len(it.Name) > 64 {
				t.Errorf("seed %d: bad call %+v", seed, it)
			}
			calls[it.CallID] = true
			if i+1 == len(items) || items[i+1].Type != realtime.ItemFunctionCallOutput || items[i+1].CallID != it.CallID {
				t.Errorf("seed %d: call %s has no output after it", seed, it.CallID)
			}
		case realtime.ItemFunctionCallOutput:
			if i == 0 || items[i-1].Type != realtime.ItemFunctionCall || items[i-1].CallID != it.CallID {
				t.Errorf("seed %d: output %s has no call before it", seed, it.CallID)
			}
		case realtime.ItemMessage:
			if strings.TrimSpace(it.Text()) == "" {
				t.Errorf("seed %d: empty message", seed)
			}
			for _, c := range it.Content {
				testkit.Equal(t, c.Type, map[bool]string{true: realtime.ContentOutputText, false: realtime.ContentInputText}[it.Role == "assistant"], "seed %d: in a message of %s", seed, it.Role)
			}
		default:
			t.Errorf("seed %d: item of type %q", seed, it.Type)
		}
	}
}

func randomThread(r *rand.Rand) []thread.Message {
	var msgs []thread.Message
	for range r.IntN(12) {
		m := thread.Message{Role: []thread.Role{"user", "assistant", "system", "tool"}[r.IntN(4)]}
		for range r.IntN(5) {
			m.Parts = append(m.Parts, randomPart(r))
		}
		if r.IntN(4) == 0 {
			full := ""
			for _, p := range m.Parts {
				full += p.Text
			}
			full = full[:r.IntN(len(full)+1)]
			m.Metadata.HeardText = &full
		}
		msgs = append(msgs, m)
	}
	return msgs
}

func randomPart(r *rand.Rand) thread.Part {
	p := thread.Part{
		Type: []string{"text", "text", "tool-chart", "dynamic-tool", "step-start", "file"}[r.IntN(6)],
		Text: randomText(r), ToolCallID: randomID(r), ToolName: []string{"", "mcp__tool", "ä b", strings.Repeat("z", 99)}[r.IntN(4)],
		State: []thread.ToolState{"", "input-available", "output-available", "output-error"}[r.IntN(4)], ErrorText: randomText(r),
	}
	for _, dst := range []*json.RawMessage{&p.Input, &p.Output} {
		switch r.IntN(5) {
		case 0:
		case 1:
			*dst = json.RawMessage(`{"broken":`)
		case 2:
			*dst = json.RawMessage(`{"chartId":"c","chartData":{},"message":` + string(mustJSON(randomText(r))) + `}`)
		default:
			*dst = mustJSON(randomText(r))
		}
	}
	return p
}

func mustJSON(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return b
}

func randomText(r *rand.Rand) string {
	unit := []string{"word ", "\x00", "\"\\", "é", "😀", "\xff", " ", "\u2028", "<&>"}[r.IntN(9)]
	if r.IntN(100) == 0 {
		return strings.Repeat(unit, 160_000)
	}
	return strings.Repeat(unit, []int{0, 1, 1, 2, 7, 7, 50, 300, 20_000}[r.IntN(9)])
}

func randomID(r *rand.Rand) string {
	return []string{"", "call_1", "call_2", strings.Repeat("x", 40), "ü", "a b"}[r.IntN(6)]
}

func FuzzCutJSON(f *testing.F) {
	f.Add("hello", 3)
	f.Add("é\x00\"\xff😀\u2028", 20)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = limit&0xffff + 1
		got := cutJSON(s, limit)
		encoded := toolkit.Encode(got)
		if len(encoded)-2 != jsonLen(got) {
			t.Fatalf("length of %q is %d, not %d", got, len(encoded)-2, jsonLen(got))
		}
		if jsonLen(got) > limit {
			t.Fatalf("%q is longer than %d", got, limit)
		}
		if utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Fatalf("%q is cut inside a character", got)
		}
		if jsonLen(s) <= limit && got != s {
			t.Fatalf("%q was cut to %q needlessly", s, got)
		}
	})
}
