package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/assistant"
	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/anthropic"
	"voicebridge/llm/google"
	"voicebridge/llm/ollama"
	"voicebridge/llm/openai"
	"voicebridge/llm/simulator"
	"voicebridge/persistence"
	"voicebridge/persistence/hooked"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

const (
	booking = `{"id":"booking","name":"Booking","text":{"model":"reader"},"extract":{"type":"object","properties":{"city":{"$ref":"#/$defs/city"},"guests":{"type":"integer","minimum":1}},
		"required":["city","guests"],"$defs":{"city":{"type":"string","enum":["Bonn","Graz"]}}}}`
	booked = `{"summary": "A table in Bonn.", "extracted": {"city": "Bonn", "guests": 2}}`
)

// called saves an ended call of an assistant with a schema, and what was said in it and beside it.
func (b *bench) called(id, assistantID string) {
	b.t.Helper()
	at := time.Now().Add(-time.Minute)
	heard := "A table"
	b.write(
		thread.Message{Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("Something else")}},
		thread.Message{Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("A table for two.")}, Metadata: thread.Metadata{CallID: id}},
		thread.Message{Role: thread.RoleAssistant, Parts: []thread.Part{
			{Type: "dynamic-tool", ToolName: "find_table", ToolCallID: "t", State: thread.ToolOutputAvailable, Input: json.RawMessage(`{"n":2}`), Output: json.RawMessage(`{"city":"Bonn"}`)},
			thread.TextPart("A table in Graz, or in Bonn"),
		}, Metadata: thread.Metadata{CallID: id, Source: thread.SourceVoice, Status: thread.StatusInterrupted, HeardText: &heard}},
	)
	// Once it is there, it may be read at any time.
	must(b.t, b.store.Records.SaveCall(b.t.Context(), b.key, records.Call{ID: id, StartedAt: at, EndedAt: &at, AssistantID: assistantID, AssistantOwner: b.key.Owner, Extraction: records.ExtractionWaiting}))
	b.c.CallEnded()
}

// read waits until the call was read, or has failed.
func (b *bench) read(id string) records.Call {
	b.t.Helper()
	for {
		c, err := b.store.Records.Call(b.within(), b.key.Owner, id)
		must(b.t, err)
		if c.Extraction == records.ExtractionDone || c.Extraction == records.ExtractionFailed {
			return c
		}
		time.Sleep(time.Second) // virtual
	}
}

// wrote are the events with which each vendor's API streams a text.
var wrote = map[string]func(text string) string{
	"openai": func(text string) string {
		return fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"+
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":10}}\n\ndata: [DONE]\n\n", text)
	},
	"anthropic": func(text string) string {
		return "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":100,\"output_tokens\":1}}}\n\n" +
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
			fmt.Sprintf("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":%q}}\n\n", text) +
			"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":10}}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	},
	"google": func(text string) string {
		return fmt.Sprintf("data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":%q}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":100,\"candidatesTokenCount\":10}}\n\n", text)
	},
	"ollama": func(text string) string {
		return fmt.Sprintf("{\"message\":{\"role\":\"assistant\",\"content\":%q},\"done\":false}\n{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":100,\"eval_count\":10}\n", text)
	},
}

// schemaAt is where each vendor's API wants the schema.
var schemaAt = map[string][]string{
	"openai":    {"response_format", "json_schema", "schema"},
	"anthropic": {"output_config", "format", "schema"},
	"google":    {"generationConfig", "responseJsonSchema"},
	"ollama":    {"format"},
}

// TestExtraction reads a call with each vendor's API: what was said in it, as heard, goes there with the schema in the vendor's
// place; an answer that does not fit is repaired.
func TestExtraction(t *testing.T) {
	t.Parallel()
	for name, write := range wrote {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var asked []map[string]any
			answers := []string{"```json\n" + `{"summary":"s","extracted":{"city":"Rome","guests":2}}` + "\n```", "Here: " + booked}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				var body map[string]any
				if err := json.Unmarshal(raw, &body); err != nil {
					t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
				}
				mu.Lock()
				defer mu.Unlock()
				n := len(asked)
				asked = append(asked, body)
				if name == "ollama" {
					w.Header().Set("Content-Type", "application/x-ndjson")
				} else {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				_, _ = io.WriteString(w, write(answers[min(n, len(answers)-1)]))
			}))
			defer server.Close()
			var provider llm.Provider
			var err error
			switch name {
			case "openai":
				provider, err = openai.New(openai.Config{BaseURL: server.URL, Compatible: true})
			case "anthropic":
				provider, err = anthropic.New(anthropic.Config{BaseURL: server.URL, APIKey: "k"})
			case "google":
				provider, err = google.New(google.Config{BaseURL: server.URL, APIKey: "k"})
			case "ollama":
				provider, err = ollama.New(ollama.Config{Host: server.URL})
			}
			must(t, err)
			url := persistencetest.SQLiteURL(t)
			store := persistencetest.Open(t, url, persistence.Options{})
			b := start(t, store, chat.Config{
				Providers: []llm.Provider{provider}, NoTitles: true, Models: map[string]string{name: "other"},
				Cost: func(string, string, llm.Usage) *float64 { return new(0.25) },
			})
			b.makes(booking)
			_, err = store.Hooks.Add(t.Context(), hooked.Hook{Owner: b.key.Owner, URL: "https://example.com/", Events: []string{hooked.CallExtracted}, Enabled: true})
			must(t, err)
			watch := store.Watch(b.key)
			defer watch.Close()
			b.called("call-1", "booking")
			select {
			case <-store.Hooks.Woken():
			case <-b.within().Done():
				t.Error("no hook is told")
			}
			c, err := store.Records.Call(t.Context(), b.key.Owner, "call-1")
			must(t, err)
			if c.Extraction != records.ExtractionDone || c.Summary != "A table in Bonn." {
				t.Fatalf("read: %+v", c)
			}
			for e, err := range watch.Events(b.within(), -1) {
				must(t, err)
				if e.Type == "call_extracted" {
					checkText(t, "what followers are told", string(e.Data), `{"call_id":"call-1","extraction":"done"}`)
					break
				}
			}
			facts := map[string]any{}
			must(t, json.Unmarshal(c.Extracted, &facts))
			testkit.Equal(t, facts, map[string]any{"city": "Bonn", "guests": 2.0}, "extracted")
			mu.Lock()
			defer mu.Unlock()
			if len(asked) != 2 {
				t.Fatalf("%d requests", len(asked))
			}
			var schema any = asked[0]
			for _, step := range schemaAt[name] {
				object, _ := schema.(map[string]any)
				schema = object[step]
			}
			object, _ := schema.(map[string]any)
			properties, _ := object["properties"].(map[string]any)
			if _, ok := properties["extracted"].(map[string]any)["properties"]; !ok || object["$defs"] == nil {
				t.Errorf("the schema is %v", schema)
			}
			first, err := json.Marshal(asked[0])
			must(t, err)
			for words, want := range map[string]bool{"A table for two.": true, "find_table": true, "Assistant: A table\\\\n": false, "Something else": false, "Graz, or": false} {
				if got := strings.Contains(string(first), words); want != got {
					t.Errorf("%q is in the request: %t; %s", words, got, first)
				}
			}
			second, err := json.Marshal(asked[1])
			if must(t, err); !strings.Contains(string(second), "That does not fit") || !strings.Contains(string(second), "city") {
				t.Errorf("the repair: %s", second)
			}
			today := time.Now()
			used, err := store.Records.UsageByDay(t.Context(), b.key.Owner, today.Add(-24*time.Hour), today.Add(24*time.Hour))
			if must(t, err); len(used) != 1 || used[0].Responses != 2 || used[0].CostUSD == nil || *used[0].CostUSD != 0.5 {
				t.Errorf("used %+v", used)
			}
			kinds := persistencetest.Rows(t, url, "SELECT DISTINCT kind, call_id, model FROM responses")
			testkit.Equal(t, kinds, [][]string{{"extraction", "call-1", "reader"}}, "responses")
		})
	}
}

// TestExtractionFails has a model fail in each way: some failures are tried again, others are for good.
func TestExtractionFails(t *testing.T) {
	says := func(text string) func(yield func(llm.Delta, error) bool) {
		return func(yield func(llm.Delta, error) bool) { yield(llm.Delta{Text: text, Stop: llm.StopEnd}, nil) }
	}
	fails := func(kind llm.ErrorKind) func(yield func(llm.Delta, error) bool) {
		return func(yield func(llm.Delta, error) bool) {
			yield(llm.Delta{}, &llm.Error{Kind: kind, Message: "The model said " + string(kind) + "."})
		}
	}
	for name, c := range map[string]struct {
		assistant string
		answers   []func(yield func(llm.Delta, error) bool)
		requests  int
		want      string // why it failed; empty: it did not
	}{
		"a schema that is not taken": {"booking", []func(func(llm.Delta, error) bool){fails(llm.KindBadRequest), says(booked)}, 2, ""},
		"a busy model":               {"booking", []func(func(llm.Delta, error) bool){fails(llm.KindOverloaded), fails(llm.KindTimeout), fails(llm.KindOverloaded), says(booked)}, 4, ""},
		"a broken model":             {"booking", []func(func(llm.Delta, error) bool){fails(llm.KindAuth)}, 4, "The model said auth."},
		"no JSON":                    {"booking", []func(func(llm.Delta, error) bool){says("I cannot.")}, 8, "the model's answer does not fit the schema: it is not a JSON object"},
		"half a JSON":                {"booking", []func(func(llm.Delta, error) bool){says(`{"summary":"s"}`)}, 8, `the model's answer does not fit the schema: "extracted" is missing`},
		"no summary":                 {"booking", []func(func(llm.Delta, error) bool){says(`{"summary":" ","extracted":{"city":"Bonn","guests":1}}`)}, 8, `the model's answer does not fit the schema: "summary" is missing`},
		"wrong types":                {"booking", []func(func(llm.Delta, error) bool){says(`{"summary":1,"extracted":[]}`), says(`{"summary":"s","extracted":[]}`), says(booked)}, 3, ""},
		"no assistant":               {"gone", nil, 0, "the assistant no longer says what to find"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *persistence.Store) {
				t.Helper()
				model := &fake{name: "fake", answer: func(_ context.Context, n int, _ llm.Request, yield func(llm.Delta, error) bool) {
					c.answers[min(n, len(c.answers)-1)](yield)
				}}
				b := start(t, store, asking(model))
				b.makes(booking)
				b.called("call-1", c.assistant)
				got := b.read("call-1")
				if got.ExtractionError != c.want || (got.Extraction == records.ExtractionDone) != (c.want == "") || len(model.seen()) != c.requests {
					t.Errorf("after %d requests: %+v", len(model.seen()), got)
				}
			})
		})
	}
}

// TestExtractionStops gives a call back that is being read when the process stops, and has nothing to read of a silent one.
func TestExtractionStops(t *testing.T) {
	bubble(t, func(t *testing.T, store *persistence.Store) {
		model := &fake{name: "fake", answer: func(ctx context.Context, _ int, _ llm.Request, yield func(llm.Delta, error) bool) {
			<-ctx.Done()
			yield(llm.Delta{}, ctx.Err())
		}}
		b := start(t, store, asking(model))
		b.makes(booking)
		at := time.Now()
		must(t, store.Records.SaveCall(t.Context(), b.key, records.Call{ID: "silent", StartedAt: at.Add(-time.Hour), EndedAt: &at, AssistantID: "booking", AssistantOwner: b.key.Owner, Extraction: records.ExtractionWaiting}))
		b.c.CallEnded()
		if c := b.read("silent"); c.ExtractionError != "nothing was said" {
			t.Errorf("a silent call: %+v", c)
		}
		b.called("call-1", "booking")
		synctest.Wait()
		b.stop()
		c, err := store.Records.Call(t.Context(), b.key.Owner, "call-1")
		if must(t, err); c.Extraction != records.ExtractionWaiting || len(model.seen()) != 1 {
			t.Errorf("after the stop: %+v, %d requests", c, len(model.seen()))
		}
	})
}

// TestSimulatorReads has the simulator make something up that fits.
func TestSimulatorReads(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"type":"string","minLength":40},"b":{"type":["integer","null"],"minimum":3},"c":{"type":"array","minItems":2,"items":{"enum":["x","y"]}},"d":{"const":true},"e":{"type":"object"},"f":{"type":"boolean"},"g":{"type":"null"}},"required":["a","b","c","d","e","f","g"]}`,
		`{"type":"object"}`,
	} {
		a := assistant.Assistant{Extract: json.RawMessage(schema)}
		req := llm.Request{Schema: chat.ExtractSchema(a.Extract), Messages: []llm.Message{{Role: llm.RoleUser, Content: "x"}}}
		var text strings.Builder
		for d, err := range simulator.New(simulator.Config{}).Stream(t.Context(), req) {
			must(t, err)
			text.WriteString(d.Text)
		}
		if _, err := chat.ParseExtracted(text.String(), a.Extract); err != nil {
			t.Errorf("%s: %v", text.String(), err)
		}
	}
}
