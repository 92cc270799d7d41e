package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"voicebridge/persistence"
	"voicebridge/thread"
)

// TestOwnersChooseTheSameID has two owners with a session main: each has their own at every route that takes its id.
func TestOwnersChooseTheSameID(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	address, _ := b.run(t)
	threads := map[string]string{}
	for _, owner := range []string{"alice", "bob"} {
		token := owner + "-token-of-tests"
		for range 2 { // made, and found again
			conn := open(t, "ws://"+address+"/conductor?session_id=main", "Authorization", "Bearer "+token)
			conn.SetReadLimit(-1)
			must(t, conn.Write(within(t), websocket.MessageText, []byte(`{"type":"transcript.final","sessionId":"main","payload":{"text":"I am `+owner+`"}}`)))
			for {
				_, data, err := conn.Read(within(t))
				must(t, err)
				if !strings.Contains(string(data), `"sessionId":"main"`) || strings.Contains(string(data), `"type":"error"`) {
					t.Fatalf("%s gets %s", owner, data)
				}
				if strings.Contains(string(data), `idle`) {
					break
				}
			}
			must(t, conn.Close(websocket.StatusNormalClosure, ""))
		}
		wantStatus(t, b.do(t, "POST", "/api/sessions/main/queue", `{"message":"`+owner+` queues"}`, as(token)), 201)
		r := b.do(t, "POST", callsPath+"?thread_id=main&takeover=true", sdpOffer, sdpType, as(token))
		wantStatus(t, r, 201)
		threads[owner] = r.Header.Get("X-Thread-Id")
		ek := mint(t, b, `{"thread_id":"main"}`, as(token)).Value
		r = b.do(t, "POST", callsPath+"?thread_id=main&takeover=true", sdpOffer, sdpType, as(ek))
		if wantStatus(t, r, 201); r.Header.Get("X-Thread-Id") != threads[owner] {
			t.Errorf("%s's secret opens a call on %q, not %q", owner, r.Header.Get("X-Thread-Id"), threads[owner])
		}
	}
	if threads["alice"] != "main" || threads["bob"] == "main" || len(threads["bob"]) > maxThreadID {
		t.Errorf("the threads are %q", threads)
	}
	for owner, other := range map[string]string{"alice": "bob", "bob": "alice"} {
		token := as(owner + "-token-of-tests")
		for _, path := range []string{"/api/threads/main/messages", "/api/threads/" + threads[owner] + "/messages", "/api/threads/main/queue", "/api/threads/main/export", "/api/threads"} {
			r := b.do(t, "GET", path, "", token)
			if wantStatus(t, r, 200); strings.Contains(r.body, "am "+other) || strings.Contains(r.body, other+" queues") {
				t.Errorf("%s reads at %s what %s says: %s", owner, path, other, r.body)
			}
		}
		if r := b.do(t, "GET", "/api/threads/main/messages", "", token); strings.Count(r.body, "I am "+owner) < 2 {
			t.Errorf("%s reads %s", owner, r.body)
		}
		wantError(t, b.do(t, "GET", "/api/threads/"+threads[other]+"x/messages", "", token), http.StatusNotFound, "thread_not_found")
	}
	wantError(t, b.do(t, "GET", "/api/threads/"+threads["bob"]+"/messages", "", as("alice-token-of-tests")), http.StatusNotFound, "thread_not_found")
	// What one deletes stays the other's, and does not become theirs.
	b.calls.mu.Lock()
	clear(b.calls.live)
	b.calls.mu.Unlock()
	wantStatus(t, b.do(t, "DELETE", "/api/threads/main", "", as("alice-token-of-tests")), 204)
	wantError(t, b.do(t, "GET", "/api/threads/main", "", as("alice-token-of-tests")), http.StatusNotFound, "thread_not_found")
	if r := b.do(t, "GET", "/api/threads/main", "", as("bob-token-of-tests")); r.StatusCode != http.StatusOK || !strings.Contains(r.body, threads["bob"]) {
		t.Errorf("bob's: %d %s", r.StatusCode, r.body)
	}
}

func TestOwnKey(t *testing.T) {
	t.Parallel()
	alice := ownKey(thread.Key{Owner: "alice", Thread: "main"})
	for _, other := range []thread.Key{{Owner: "bob", Thread: "main"}, {Owner: "alice", Thread: "other"}, {Owner: "alice\x00m", Thread: "ain"}} {
		if ownKey(other).Thread == alice.Thread {
			t.Errorf("%+v has the thread of alice's main", other)
		}
	}
	if newSession.MatchString(alice.Thread) || alice.Owner != "alice" {
		t.Errorf("%+v can be chosen by anybody", alice)
	}
	made := thread.Key{Owner: "alice", Thread: persistence.NewID()}
	if ownKey(made) != made {
		t.Errorf("%+v is another's", made)
	}
}
