package web

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/persistence"
	"voicebridge/persistence/records"
)

// TestOwnerSocket follows all threads of one owner.
func TestOwnerSocket(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	address, _ := b.run(t)
	alice := open(t, "ws://"+address+"/api/ws", "Authorization", "Bearer alice-token-of-tests")
	if e := next(t, alice); e.Type != "connected" {
		t.Fatalf("first %+v", e)
	}
	b.thread(t, "bob") // a stranger's threads are not announced
	key := b.thread(t, "alice")
	base := "/api/threads/" + key.Thread
	wantStatus(t, b.do(t, "PATCH", base, `{"title":"Named"}`, as("alice-token-of-tests")), 200)
	wantStatus(t, b.do(t, "POST", base+"/messages", `{"content":"hi"}`, as("alice-token-of-tests")), 200)
	must(t, b.db.Batch(t.Context(), key, func(w *persistence.Batch) error {
		return w.Tell(persistence.Event{Type: "call_started", Data: json.RawMessage(`{"call_id":"c1"}`)})
	}))
	b.db.Publish(t.Context(), key, persistence.Event{Type: "message_delta", Data: json.RawMessage(`{"text":"x"}`)})
	var got []string
	var seqs []int64
	for len(got) == 0 || got[len(got)-1] != "thread_deleted" {
		e := next(t, alice)
		var data struct {
			ThreadID string              `json:"thread_id"`
			CallID   string              `json:"call_id"`
			Thread   *persistence.Thread `json:"thread"`
		}
		if err := json.Unmarshal(e.Data, &data); err != nil || data.ThreadID != key.Thread {
			t.Errorf("%s %s, %v", e.Type, e.Data, err)
		}
		if e.Type == "call_started" && data.CallID != "c1" || e.Type == "thread_created" && data.Thread == nil {
			t.Errorf("%s %s", e.Type, e.Data)
		}
		seqs = append(seqs, e.Seq)
		if got = append(got, string(e.Type)); e.Type == "call_started" {
			wantStatus(t, b.do(t, "DELETE", base, "", as("alice-token-of-tests")), 204)
		}
	}
	want := []string{"thread_created", "thread_updated", "thread_updated", "turn_started", "turn_finished", "call_started", "thread_deleted"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	// Who connects again with a number gets what came after it.
	again := open(t, fmt.Sprint("ws://", address, "/api/ws?after=", seqs[4]), "Authorization", "Bearer alice-token-of-tests")
	if e := next(t, again); e.Type != "connected" || string(e.Data) != fmt.Sprintf(`{"owner":"alice","server_max_seq":%d}`, seqs[6]) {
		t.Errorf("after %d comes %+v", seqs[4], e)
	}
	for n := 5; n < 7; n++ {
		if e := next(t, again); string(e.Type) != want[n] || e.Seq != seqs[n] {
			t.Errorf("after %d comes %s %d, want %s %d", seqs[4], e.Type, e.Seq, want[n], seqs[n])
		}
	}
	unknown := open(t, fmt.Sprint("ws://", address, "/api/ws?after=", seqs[6]+1), "Authorization", "Bearer alice-token-of-tests")
	if e := next(t, unknown); string(e.Data) != fmt.Sprintf(`{"owner":"alice","server_max_seq":%d,"missed":true}`, seqs[6]) {
		t.Errorf("after an unknown number comes %+v", e)
	}
	wantStatus(t, b.do(t, "GET", "/api/ws?after=x", "", as("alice-token-of-tests")), 400)
	// A process that counted as dead for a while goes on.
	must(t, b.db.Cluster.Rejoin(t.Context()))
	b.thread(t, "alice")
	if e := next(t, alice); e.Type != "thread_created" {
		t.Errorf("after a new beginning %+v", e)
	}
	if _, status, err := dial(t, "ws://"+address+"/api/ws"); err == nil || status != 401 {
		t.Errorf("without a token: status %d, %v", status, err)
	}
	if _, status, err := dial(t, "ws://"+address+"/api/ws", "Authorization", "Bearer alice-token-of-tests", "Origin", "https://evil.example"); err == nil || status != 403 {
		t.Errorf("from a foreign page: status %d, %v", status, err)
	}
	wantStatus(t, b.do(t, "GET", "/api/ws", "", as("alice-token-of-tests")), 426)
}

// TestOwnerSocketTellsLiveCalls connects while calls are live: their beginnings come after the greeting.
func TestOwnerSocketTellsLiveCalls(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	address, _ := b.run(t)
	last := 0
	for owner, call := range map[string]string{"alice": "c1", "bob": "c2"} {
		key := b.thread(t, owner)
		last++
		must(t, b.db.Records.SaveCall(t.Context(), key, records.Call{ID: call, StartedAt: time.Now()}))
		conn := open(t, "ws://"+address+"/api/ws", "Authorization", "Bearer "+owner+"-token-of-tests")
		want := []string{`connected {"owner":"` + owner + `","server_max_seq":` + fmt.Sprint(last) + `}`, `call_started {"call_id":"` + call + `","thread_id":"` + key.Thread + `"}`}
		for _, want := range want {
			if e := next(t, conn); string(e.Type)+" "+string(e.Data) != want {
				t.Errorf("%s: %s %s, want %s", owner, e.Type, e.Data, want)
			}
		}
	}
}
