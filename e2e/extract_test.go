package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime/simulator"
)

// TestExtractionKilled kills the process while the text model reads a call that has ended. The next one has it read again, and
// tells what was found.
func TestExtractionKilled(t *testing.T) {
	t.Parallel()
	takePlace(t)
	var asked atomic.Int32
	first := make(chan string, 1)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.HasSuffix(r.URL.Path, "/api/chat") || !strings.Contains(string(body), "You read the record of a call") {
			w.WriteHeader(http.StatusNotFound) // of a title
			return
		}
		if asked.Add(1) == 1 {
			first <- string(body)
			<-r.Context().Done() // killed
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, `{"message":{"role":"assistant","content":"{\"summary\":\"They spoke of the time.\",\"extracted\":{\"hour\":12}}"},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":3}`+"\n")
	}))
	t.Cleanup(model.Close)
	r := newRig(t, rigConfig{simulator: simulator.Config{Pace: quick}, environ: []string{"VOICEBRIDGE_TEXT_PROVIDER=ollama", "OLLAMA_HOST=" + model.URL}})
	r.postJSON(t, "/api/assistants", `{"id":"clock","name":"Clock","extract":{"type":"object","properties":{"hour":{"type":"integer"}},"required":["hour"]}}`, http.StatusCreated, nil)
	var made struct{ ID string }
	r.postJSON(t, "/api/threads", `{"assistant_id":"clock"}`, http.StatusCreated, &made)
	c := r.dial(t, request{thread: made.ID})
	c.next("bridge.ready")
	c.speak()
	c.played(spokenAnswer)
	c.hangUp()
	if body, _ := testkit.Receive(t, "a request of the first process", first); !strings.Contains(body, spokenWords) || !strings.Contains(body, spokenAnswer) || !strings.Contains(body, `"format":{`) {
		t.Errorf("the model was asked %s", body)
	}
	calls := r.url + "/api/threads/" + made.ID + "/calls"
	if _, body := get(t, calls); !strings.Contains(body, `"extraction":"running"`) {
		t.Errorf("while it is read: %s", body)
	}
	r.kill()
	r.start()
	untilGet(t, r.url+"/api/threads/"+made.ID+"/calls", `"extraction":"done"`)
	var listed struct {
		Calls []struct {
			CallID    string          `json:"call_id"`
			Summary   string          `json:"summary"`
			Extracted json.RawMessage `json:"extracted"`
		}
	}
	_, body := get(t, r.url+"/api/threads/"+made.ID+"/calls")
	must(t, json.Unmarshal([]byte(body), &listed))
	if len(listed.Calls) != 1 || listed.Calls[0].CallID != c.id || listed.Calls[0].Summary != "They spoke of the time." || string(listed.Calls[0].Extracted) != `{"hour":12}` {
		t.Errorf("listed %s", body)
	}
	want := [][]string{{c.id, "clock", "They spoke of the time.", `{"hour":12}`}}
	testkit.Equal(t, persistencetest.Rows(t, r.database, "SELECT call_id, assistant, summary, extracted FROM call_summary"), want, "call_summary")
	testkit.Equal(t, asked.Load(), 2, "the model was asked times")
}
