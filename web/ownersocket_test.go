package web

import (
	"fmt"
	"testing"
	"time"

	"voicebridge/persistence/records"
)

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
