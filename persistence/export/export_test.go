package export_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/export"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/pictures"
	"voicebridge/thread"
)

func TestMain(m *testing.M) { persistencetest.Main(m) }

var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	row   = persistence.Thread{ID: "t1", Title: "Rome\n# and <more>", CreatedAt: start, UpdatedAt: start}
)

func message(role thread.Role, after time.Duration, parts ...thread.Part) thread.Message {
	return thread.Message{ID: fmt.Sprint(role, after), Role: role, Parts: parts, Metadata: thread.Metadata{
		Source: thread.SourceText, Status: thread.StatusCompleted, CreatedAt: start.Add(after),
	}}
}

func conversation() []thread.Message {
	tool := thread.ToolPart("add")
	tool.ToolCallID, tool.State = "c1", thread.ToolOutputAvailable
	tool.Input, tool.Output = json.RawMessage(`{"a":1}`), json.RawMessage("\"```json\\nx\"")
	failed := thread.DynamicToolPart("mail`send")
	failed.ToolCallID, failed.State, failed.ErrorText = "c2", thread.ToolOutputError, "no\n\n# network"
	open := thread.DynamicToolPart("slow")
	open.ToolCallID, open.State = "c3", thread.ToolInputAvailable
	spoken := message(thread.RoleUser, 2500*time.Millisecond, thread.TextPart("How is\n\nthe weather there?"))
	spoken.Metadata.Source = thread.SourceVoice
	cut := message(thread.RoleAssistant, 4*time.Second, thread.StepStart(), thread.TextPart("It is warm and sunny."))
	cut.Metadata.Source, cut.Metadata.Status, cut.Metadata.HeardText = thread.SourceVoice, thread.StatusInterrupted, new("It is")
	lost := message(thread.RoleUser, 3*time.Second) // the message that it follows comes after it
	lost.Metadata.Source, lost.Metadata.Status = thread.SourceVoice, thread.StatusFailed
	return []thread.Message{
		message(thread.RoleSystem, 0, thread.TextPart("Be brief.")),
		spoken, cut, lost,
		message(thread.RoleAssistant, 3500*time.Millisecond, thread.StepStart(), tool, failed, open, thread.TextPart("Done.")),
		message(thread.RoleUser, 5*time.Second, pictures.ImagePart("t1", pictures.Image{ID: "i1", MediaType: "image/png"}),
			thread.Part{Type: "file", Raw: json.RawMessage(`{"type":"file","mediaType":"text/plain","url":"data:text/plain,x"}`)}),
	}
}

func all(messages []thread.Message) iter.Seq2[thread.Message, error] {
	return func(yield func(thread.Message, error) bool) {
		for _, m := range messages {
			if !yield(m, nil) {
				return
			}
		}
	}
}

func write(t *testing.T, format export.Format, messages []thread.Message) string {
	t.Helper()
	var b strings.Builder
	testkit.Must(t, export.Write(&b, format, row, all(messages)))
	return b.String()
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	want := "# Rome # and <more>\n\n2026-01-02 02:04:05 UTC · t1\n" +
		"\n## Instructions · 2026-01-02 02:04:05 UTC\n\nBe brief.\n" +
		"\n## User · 2026-01-02 02:04:07 UTC · spoken\n\nHow is\n\nthe weather there?\n" +
		"\n## Assistant · 2026-01-02 02:04:09 UTC · spoken · interrupted\n\nIt is warm and sunny.\n\n*Heard:* It is\n" +
		"\n## User · 2026-01-02 02:04:08 UTC · spoken · failed\n\n*(no words)*\n" +
		"\n## Assistant · 2026-01-02 02:04:08 UTC\n" +
		"\nTool `add`\n\n```json\n{\n  \"a\": 1\n}\n```\n\nResult\n\n````json\n\"```json\\nx\"\n````\n" +
		"\nTool ``mail`send``\n\nError: `no # network`\n" +
		"\nTool `slow`\n\nNo result.\n" +
		"\nDone.\n" +
		"\n## User · 2026-01-02 02:04:10 UTC\n\nPicture `/api/threads/t1/images/i1`\n\nFile\n"
	testkit.Equal(t, write(t, export.Markdown, conversation()), want, "write")
	if got := write(t, export.Markdown, nil); !strings.HasPrefix(got, "# Rome") {
		t.Errorf("an empty thread is %q", got)
	}
}

// TestMarkdownOfRecordings links each message to its sound, and the first of a call to the recording, whatever their
// ids are.
func TestMarkdownOfRecordings(t *testing.T) {
	t.Parallel()
	spoken := func(call, id, text string, from, to int64) thread.Message {
		m := message(thread.RoleUser, 0, thread.TextPart(text))
		m.ID, m.Metadata.Source, m.Metadata.CallID = id, thread.SourceVoice, call
		if to > 0 {
			m.Metadata.Audio = &thread.AudioSpan{StartMS: from, EndMS: to}
		}
		return m
	}
	got := write(t, export.Markdown, []thread.Message{
		spoken("c1", "m1", "Before it was recorded.", 0, 0), spoken("c1", "m2", "One.", 1500, 2900), spoken("c1", "m3", "Two.", 59_999, 60_000),
		spoken("c/2) [x](y", "m 4)\n", "Three.", 3_600_000, 3_661_000), spoken("c3", "m5", "Not recorded.", 0, 0),
	})
	const head = "## User · 2026-01-02 02:04:05 UTC · spoken\n\n"
	want := head + "Before it was recorded.\n" +
		"\n[Recording of the call](/api/calls/c1/recording?track=both)\n\n" + head + "One.\n\n[Sound, 0:01 to 0:02](/api/threads/t1/messages/m2/audio)\n" +
		"\n" + head + "Two.\n\n[Sound, 0:59 to 1:00](/api/threads/t1/messages/m3/audio)\n" +
		"\n[Recording of the call](/api/calls/c%2F2%29%20%5Bx%5D%28y/recording?track=both)\n\n" + head +
		"Three.\n\n[Sound, 60:00 to 61:01](/api/threads/t1/messages/m%204%29%0A/audio)\n" +
		"\n" + head + "Not recorded.\n"
	testkit.Equal(t, got[strings.Index(got, "## "):], want, "got[strings.Index(got, \"## \"):]")
}

// TestMarkdownOfOpenCode ends the code blocks that an answer leaves open, and no others.
func TestMarkdownOfOpenCode(t *testing.T) {
	t.Parallel()
	for text, end := range map[string]string{
		"```go\nx :=":              "\n```\n",
		"```\na\n```\n~~~~\n```":   "\n~~~~\n",
		"````\n```\nx\n```":        "\n````\n",
		"   ```\nx\n``` \r":        "\n",
		"```\n```go\n```":          "\n",
		"use ```x``` and\n```x```": "\n",
		"    ```\nx":               "\n",
	} {
		got := write(t, export.Markdown, []thread.Message{message(thread.RoleAssistant, 0, thread.TextPart(text))})
		if !strings.HasSuffix(got, "\n"+text+end) {
			t.Errorf("%q becomes %q, want the end %q", text, got, end)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	for _, messages := range [][]thread.Message{nil, conversation()} {
		var got struct {
			Thread   persistence.Thread
			Messages []thread.Message
		}
		text := write(t, export.JSON, messages)
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if got.Thread.Title != row.Title || len(got.Messages) != len(messages) || !strings.Contains(text, "<more>") {
			t.Errorf("export %s", text)
		}
		for i, m := range got.Messages {
			if m.Text() != messages[i].Text() || len(m.Parts) != len(messages[i].Parts) {
				t.Errorf("message %d is %+v", i, m)
			}
		}
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestErrorsAreReturned(t *testing.T) {
	t.Parallel()
	unread := func(yield func(thread.Message, error) bool) { yield(thread.Message{}, errBroken) }
	for _, f := range []export.Format{export.Markdown, export.JSON} {
		if err := export.Write(&strings.Builder{}, f, row, unread); !errors.Is(err, errBroken) {
			t.Errorf("%s: error of reading is %v", f, err)
		}
		if err := export.Write(broken{}, f, row, all(conversation())); !errors.Is(err, errBroken) {
			t.Errorf("%s: error of writing is %v", f, err)
		}
	}
	if err := export.Write(&strings.Builder{}, "pdf", row, all(nil)); err == nil {
		t.Error("an unknown format is written")
	}
}

func TestMessagesOfALongThread(t *testing.T) {
	t.Parallel()
	store := persistencetest.SQLite(t)
	key := persistencetest.NewThread(t, store, "alice", "")
	const n = 450
	err := store.Batch(t.Context(), key, func(b *persistence.Batch) error {
		for i := range n {
			if _, err := b.AppendMessage(thread.Message{Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart(fmt.Sprint(i))}}); err != nil {
				return err
			}
		}
		return nil
	})
	testkit.Must(t, err)
	seen := map[string]bool{}
	for m, err := range export.Messages(t.Context(), store, key) {
		if err != nil || seen[m.ID] {
			t.Fatalf("message %q again, err %v", m.Text(), err)
		}
		seen[m.ID] = true
		if len(seen) == 10 { // the following ones get new numbers while they are being read
			if _, err := persistencetest.InsertMessage(t.Context(), store, key, thread.Message{Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("new")}}, m.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	testkit.Equal(t, len(seen), n+1, "messages")
	i := 0
	for m, err := range export.Messages(t.Context(), store, key) {
		if want := fmt.Sprint(i); err != nil || m.Text() != want && m.Text() != "new" {
			t.Fatalf("message %q, want %s, err %v", m.Text(), want, err)
		}
		if m.Text() != "new" {
			i++
		}
	}
	key.Owner = "bob"
	for _, err := range export.Messages(t.Context(), store, key) {
		if !errors.Is(err, persistence.ErrNotFound) {
			t.Errorf("a stranger gets %v", err)
		}
	}
}
