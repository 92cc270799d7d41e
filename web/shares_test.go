package web

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/thread"
)

// TestSharedPage shows an interrupted answer as it was heard, a chart with what it is drawn from and no other output of a tool, in the
// reader's language.
func TestSharedPage(t *testing.T) {
	t.Parallel()
	heard := "Sales grew,"
	chart := `{"status":"success","chartType":"bar","title":"Sales & <more>","chartData":{"series":[1]},"secret":"of the tool"}`
	tool := func(name, output string) thread.Part {
		return thread.Part{Type: "tool-" + name, ToolName: name, State: thread.ToolOutputAvailable, Output: json.RawMessage(output)}
	}
	said := thread.Message{ID: "m", Role: thread.RoleAssistant, Parts: []thread.Part{
		tool("create_bar_chart", chart), tool("look_up", `{"chartType":"bar","secret":"output"}`), tool("read", `"secret text"`),
		{Type: thread.PartText, Text: "Sales grew, but nobody heard this."},
	}}
	said.Metadata.Status, said.Metadata.HeardText = thread.StatusInterrupted, &heard
	said.Metadata.Audio = &thread.AudioSpan{EndMS: 900}
	for _, test := range []struct {
		accept string
		want   []string
	}{
		{"", []string{`<html lang="en">`, "<h2>Assistant</h2>", "Used: look_up", "Interrupted"}},
		{"fr, de-CH;q=0.9, en;q=0.8", []string{`<html lang="de">`, "<h2>Assistent</h2>", "Verwendet: look_up", "Unterbrochen"}},
		{"en-GB,de", []string{`<html lang="en">`}},
		{";;,,x", []string{`<html lang="en">`}},
	} {
		t.Run(test.accept, func(t *testing.T) {
			t.Parallel()
			var written strings.Builder
			p := sharedPage{words: wordsFor(test.accept), thread: "t", images: "/s/t/images/", sounds: "/s/t/messages/", moved: strings.NewReplacer(), to: &written}
			must(t, p.write(persistence.Thread{CreatedAt: time.Unix(0, 0).UTC()}, "https://host", func(yield func(thread.Message, error) bool) { yield(said, nil) }))
			page := written.String()
			for _, want := range append(test.want, "<main>", `data-sound="/s/t/messages/m/audio"`, `rel="icon"`, "<time ", `https://host/preview.png`, "<p dir=\"auto\">Sales grew,</p>", "data-chart=\"{&#34;chartType&#34;:&#34;bar&#34;", "<figcaption>Sales &amp; &lt;more&gt;</figcaption>") {
				if !strings.Contains(page, want) {
					t.Errorf("no %q in %s", want, page)
				}
			}
			for _, secret := range []string{"secret", "nobody heard", "of the tool"} {
				if strings.Contains(page, secret) {
					t.Errorf("%q is in %s", secret, page)
				}
			}
		})
	}
}
