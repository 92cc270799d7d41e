//go:build nightly

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/persistence/persistencetest"
)

// readingModel is a text model that finds the hour in calls, once it may.
func readingModel(t *testing.T) (url string, may chan<- struct{}) {
	t.Helper()
	gate := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.HasSuffix(r.URL.Path, "/api/chat") || !strings.Contains(string(body), "You read the record of a call") {
			w.WriteHeader(http.StatusNotFound) // of a title
			return
		}
		select {
		case <-gate:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, `{"message":{"role":"assistant","content":"{\"summary\":\"They spoke of <b>the time</b>.\",\"extracted\":{\"hour\":12,\"was_polite\":true,\"guests\":[{\"first_name\":\"Ann\"}]}}"},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":3}`+"\n")
	}))
	t.Cleanup(server.Close)
	return server.URL, gate
}

// TestPageReport shows under the end of a call what the text model found in it, as soon as it has, and why it found nothing.
func TestPageReport(t *testing.T) {
	t.Parallel()
	model, may := readingModel(t)
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_TEXT_PROVIDER=ollama", "OLLAMA_HOST="+model)
	s.postJSON(t, "/api/assistants", `{"id":"clock","name":"Clock","extract":{"type":"object","properties":{"hour":{"type":"integer"}},"required":["hour"]}}`, http.StatusCreated, nil)
	var made struct{ ID string }
	s.postJSON(t, "/api/threads", `{"assistant_id":"clock"}`, http.StatusCreated, &made)
	p := openBrowser(t)
	p.visit(t, s.url+"/#/t/"+made.ID)
	p.until(t, "the thread", "probe.all('empty').length === 1")
	p.click(t, "talk")
	p.talk(t, heardWords)
	p.untilMessage(t, "assistant voice completed", greeting)
	p.click(t, "hangup")
	p.until(t, "a call that is being read", "probe.all('call-being-read').length === 1 && probe.all('call-report').length === 0")
	may <- struct{}{}
	const shown = `(() => {
		const report = probe.all('call-report')[0];
		const facts = [...(report?.querySelectorAll('dt') ?? [])].map((name) => name.innerText + ': ' + name.nextElementSibling.innerText);
		return [report?.querySelector('.summary').innerText, ...facts].join('\n');
	})()`
	found := "They spoke of <b>the time</b>.\nHour: 12\nWas polite: %s\nGuests · 1 · First name: Ann"
	p.until(t, "what was found", shown+" === "+quoted(fmt.Sprintf(found, "yes")))
	p.wantAccessible(t, "report")
	p.look(t, "report")
	p.do(t, "choose German", chromedp.Evaluate[chromedp.Void]("localStorage.setItem('voicebridge-language', 'de'), undefined"))
	p.reload(t)
	p.until(t, "what was found, in German", shown+" === "+quoted(fmt.Sprintf(found, "ja")))

	// A call in which nothing is said leaves no message.
	silent := openBrowser(t)
	silent.visit(t, s.url+"/#/t/"+made.ID)
	silent.until(t, "the first call", "probe.all('call-report').length === 1")
	silent.click(t, "talk")
	silent.untilLive(t)
	silent.click(t, "hangup")
	silent.until(t, "why there is no summary", "probe.all('call-not-read')[0]?.innerText === 'Nothing was said, so there is no summary.' && probe.all('call-report').length === 1")
}
