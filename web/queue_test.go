package web

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"voicebridge/chat"
	"voicebridge/llm"
	"voicebridge/thread"
)

// slowModel is a provider that answers when the test lets it.
type slowModel struct{ release chan struct{} }

func (h slowModel) Name() string { return "held" }

func (h slowModel) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		select {
		case <-h.release:
			yield(llm.Delta{Text: "ok", Stop: llm.StopEnd}, nil)
		case <-ctx.Done():
			yield(llm.Delta{}, context.Cause(ctx))
		}
	}
}

// busy is a bundle with a thread whose turn runs until release is closed.
func busy(t *testing.T, change func(*Config)) (b *bundle, key thread.Key, release chan struct{}) {
	t.Helper()
	release = make(chan struct{})
	b = setupChat(t, chat.Config{Providers: []llm.Provider{slowModel{release}}, NoTitles: true}, change)
	owner := "local"
	if change != nil {
		owner = "alice"
	}
	key = b.thread(t, owner)
	if _, err := b.chat.Turn(t.Context(), chat.TurnRequest{Key: key, Text: "first"}); err != nil {
		t.Fatal(err)
	}
	return b, key, release
}

func TestQueueRoutes(t *testing.T) {
	t.Parallel()
	b, key, release := busy(t, nil)
	picture := decode[imageAnswer](t, b.do(t, http.MethodPost, "/api/threads/"+key.Thread+"/images", pngOf(t, 1, 1), header("Content-Type", "image/png")))
	for _, base := range []string{"/api/threads/" + key.Thread, "/api/sessions/" + key.Thread} {
		r := b.do(t, http.MethodPost, base+"/queue", `{"message":"one","image_ids":["`+picture.ImageID+`"],"client_id":"tab","idempotency_key":"k","scheduled_at":"2030-01-02T03:04:05+01:00"}`)
		wantStatus(t, r, http.StatusCreated)
		one := decode[map[string]any](t, r)
		if !regexp.MustCompile(`^q-\d{10}-[0-9a-f]{8}$`).MatchString(one["id"].(string)) || one["title"] != "" || one["message"] != "one" ||
			one["scheduled_at"] != "2030-01-02T02:04:05Z" || one["queued_at"] == nil {
			t.Fatalf("added %v", one)
		}
		// The same key again means the same message.
		again := decode[map[string]any](t, b.do(t, http.MethodPost, base+"/queue", `{"message":"one","idempotency_key":"k"}`))
		if again["id"] != one["id"] {
			t.Errorf("added %v again as %v", one, again)
		}
		two := decode[queuedAnswer](t, b.do(t, http.MethodPost, base+"/queue", `{"message":"two"}`))
		three := decode[queuedAnswer](t, b.do(t, http.MethodPost, base+"/queue", `{"message":"three","scheduled_at":"1h"}`))
		if three.ScheduledAt == nil || !three.ScheduledAt.Equal(b.clock.now().Add(time.Hour)) {
			t.Errorf("scheduled at %v", three.ScheduledAt)
		}
		four := decode[queuedAnswer](t, b.do(t, http.MethodPost, base+"/queue", `{"message":"four"}`))
		r = b.do(t, http.MethodPost, base+"/queue/"+four.ID+"/move", `{"direction":"up"}`)
		wantStatus(t, r, http.StatusOK)
		list := decode[queueAnswer](t, r)
		if list.Count != 4 || list.Paused != nil || list.Messages[0].ID != four.ID || list.Messages[1].ID != two.ID {
			t.Errorf("the queue is %+v", list)
		}
		r = b.do(t, http.MethodPatch, base+"/queue/"+two.ID, `{"message":"zwei"}`)
		if got := decode[queuedAnswer](t, r); got.Message != "zwei" || r.StatusCode != http.StatusOK {
			t.Errorf("edited %+v", got)
		}
		if got := decode[queuedAnswer](t, b.do(t, http.MethodGet, base+"/queue/"+two.ID, "")); got.Message != "zwei" || got.State != "queued" {
			t.Errorf("read %+v", got)
		}
		wantError(t, b.do(t, http.MethodPost, base+"/queue/"+two.ID+"/send", ""), http.StatusConflict, "agent_busy")
		wantStatus(t, b.do(t, http.MethodPost, base+"/queue/resume", ""), http.StatusOK)
		wantStatus(t, b.do(t, http.MethodDelete, base+"/queue/"+two.ID, ""), http.StatusNoContent)
		wantError(t, b.do(t, http.MethodDelete, base+"/queue/"+two.ID, ""), http.StatusNotFound, "message_not_found")
		wantError(t, b.do(t, http.MethodGet, base+"/queue/"+two.ID, ""), http.StatusNotFound, "message_not_found")
		wantStatus(t, b.do(t, http.MethodDelete, base+"/queue", ""), http.StatusNoContent)
		if list := decode[queueAnswer](t, b.do(t, http.MethodGet, base+"/queue", "")); list.Count != 0 || list.Messages == nil {
			t.Errorf("the queue is %+v", list)
		}
	}
	wantStatus(t, b.do(t, http.MethodPost, "/api/threads/"+key.Thread+"/queue", `{"message":"last"}`), http.StatusCreated)
	close(release)
	want := "first ok last ok"
	for _, err := range b.db.Watch(key).Events(within(t), 0) {
		all, readErr := b.db.Messages(t.Context(), key, 0, 10)
		var texts []string
		for _, m := range all {
			texts = append(texts, m.Text())
		}
		if strings.Join(texts, " ") == want {
			break
		}
		if err != nil || readErr != nil {
			t.Fatalf("the thread is %q, want %q; %v", texts, want, err)
		}
	}
}

func TestQueueIsFull(t *testing.T) {
	t.Parallel()
	b, key, release := busy(t, nil)
	defer close(release)
	path := "/api/threads/" + key.Thread + "/queue"
	for n := range 10 {
		wantStatus(t, b.do(t, http.MethodPost, path, fmt.Sprintf(`{"message":"m%d","idempotency_key":"k%d"}`, n, n)), http.StatusCreated)
	}
	r := b.do(t, http.MethodPost, path, `{"message":"too much"}`)
	wantStatus(t, r, http.StatusConflict)
	if want := `{"error":"queue_full","message":"Queue is full. Maximum 10 messages allowed."}`; strings.TrimSpace(r.body) != want {
		t.Errorf("the answer is %s, want %s", r.body, want)
	}
	wantStatus(t, b.do(t, http.MethodPost, path, `{"message":"m3","idempotency_key":"k3"}`), http.StatusCreated)
	wantError(t, b.do(t, http.MethodPost, path, `{"message":"m","idempotency_key":"k3"}`), http.StatusConflict, "idempotency_key_used")
}

// TestSocketSendsQueue checks the queue in the greeting and the events after it.
func TestSocketSendsQueue(t *testing.T) {
	t.Parallel()
	b, key, release := busy(t, nil)
	path := "/api/threads/" + key.Thread + "/queue"
	wantStatus(t, b.do(t, http.MethodPost, path, `{"message":"one"}`), http.StatusCreated)
	address, _ := b.run(t)
	for _, kind := range []string{"threads", "sessions"} {
		conn := open(t, "ws://"+address+"/api/"+kind+"/"+key.Thread+"/ws")
		hello := next(t, conn)
		want := `"queue_length":1,"queue_config":{"enabled":true,"max_size":10,"delay_seconds":0}`
		if hello.Type != "connected" || !strings.Contains(string(hello.Data), want) {
			t.Errorf("the greeting is %s %s, want %s", hello.Type, hello.Data, want)
		}
		_ = conn.CloseNow()
	}
	conn := open(t, "ws://"+address+"/api/threads/"+key.Thread+"/ws")
	next(t, conn)
	close(release)
	var got []string
	for len(got) < 3 {
		if e := next(t, conn); strings.HasPrefix(string(e.Type), "queue_") {
			got = append(got, string(e.Type))
		}
	}
	if want := "queue_message_sending queue_updated queue_message_sent"; strings.Join(got, " ") != want {
		t.Errorf("the socket sent %v, want %s", got, want)
	}
}
