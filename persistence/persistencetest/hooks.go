package persistencetest

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/hooked"
	"voicebridge/persistence/recordings"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// hook adds a hook of anna.
func (b bundle) hook(t *testing.T, events ...string) hooked.Hook {
	t.Helper()
	h, err := b.store.Hooks.Add(t.Context(), hooked.Hook{Owner: "anna", URL: "https://example.com/", Events: events, Enabled: true, Secret: "s"})
	must(t, err)
	return h
}

// hookEvent is the schema of what is posted to hooks.
var hookEvent = sync.OnceValues(func() (*openapi3.Schema, error) {
	var doc map[string]any
	text, err := os.ReadFile("../web/openapi.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &doc) // it has YAML's merge keys
	}
	if err == nil {
		text, err = json.Marshal(doc)
	}
	if err != nil {
		return nil, err
	}
	described, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	s := described.Components.Schemas["HookEvent"].Value
	s.If = openapi3.NewSchemaRef("", openapi3.NewSchema()) // else the validator is one that knows no null of any type
	return s, nil
})

// got reads what a hook is to get, the oldest first, as type and data without owner and thread.
func (b bundle) got(t *testing.T, hook string) (list []string) {
	t.Helper()
	for _, row := range Rows(t, b.url, "SELECT type, body FROM hook_deliveries WHERE hook_id = '"+hook+"' ORDER BY created_at, type") {
		var body struct {
			Type      string
			Timestamp time.Time
			Data      map[string]any
		}
		must(t, json.Unmarshal([]byte(row[1]), &body))
		schema, err := hookEvent()
		must(t, err)
		var value any
		must(t, json.Unmarshal([]byte(row[1]), &value))
		if err := schema.VisitJSON(value, openapi3.EnableJSONSchema2020()); err != nil {
			t.Errorf("%s is described otherwise: %v", row[1], err)
		}
		if body.Type != row[0] || body.Timestamp.IsZero() || body.Data["owner"] != "anna" || body.Data["thread_id"] != b.key.Thread {
			t.Errorf("body %s", row[1])
		}
		delete(body.Data, "owner")
		delete(body.Data, "thread_id")
		if m, ok := body.Data["message"].(map[string]any); ok {
			body.Data["message"] = m["id"]
		}
		data, err := json.Marshal(body.Data)
		must(t, err)
		list = append(list, body.Type+" "+string(data))
	}
	return list
}

// hookEvents applies what happens in a call and in a turn, twice, as from a spool after a crash.
func (s suite) hookEvents(t *testing.T) {
	b := s.setup(t)
	hook, other := b.hook(t, "*"), b.hook(t, "call.*")
	stranger, err := b.store.Hooks.Add(t.Context(), hooked.Hook{Owner: "bert", URL: "https://example.com/", Events: []string{"*"}, Enabled: true})
	must(t, err)
	off, err := b.store.Hooks.Change(t.Context(), "anna", b.hook(t, "*").ID, func(h *hooked.Hook) error { h.Enabled = false; return nil })
	must(t, err)
	must(t, b.store.Hooks.SetOperator(t.Context(), []hooked.Hook{{URL: "https://operator.example/", Events: []string{"message.completed", "budget.*"}}}))

	end := start.Add(90500 * time.Millisecond)
	cost := 0.25
	call := records.Call{ID: "c", Upstream: "up", StartedAt: start}
	ended := call
	ended.EndedAt, ended.EndReason, ended.Turns = &end, "hangup", 3
	said := putText("m1", "hello", last)
	said.Message.Metadata.Status, said.Message.Metadata.CallID, said.Message.Role = thread.StatusInProgress, "c", thread.RoleAssistant
	done := said
	done.Message.Metadata.Status, done.Message.Metadata.Usage = thread.StatusCompleted, json.RawMessage(`{"total_tokens":5}`)
	cut := said
	cut.Message.Metadata.Status = thread.StatusInterrupted
	tool := thread.ToolCall{ID: "t", MessageID: "m1", CallID: "c", ToolCallID: "fc", Name: "get", Executor: "app", Status: thread.ToolCallRunning, Input: `{"a":1}`, StartedAt: start}
	ran := tool
	ran.Status, ran.FinishedAt = thread.ToolCallDone, new(start.Add(1500*time.Millisecond))
	asked := thread.Approval{ID: "t", ToolCallID: "fc", Nonce: "n", AskedAt: start, ExpiresAt: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}
	changes := []persistence.Change{
		persistence.PutCall{Call: call},
		persistence.PutEvent{ID: "e1", Type: persistence.EventCallStarted, Data: json.RawMessage(`{"call_id":"c"}`)},
		said,
		persistence.PutToolCall{ToolCall: tool},
		persistence.PutApproval{Approval: asked},
		persistence.PutToolCall{ToolCall: ran},
		done,
		persistence.PutResponse{Response: records.Response{ID: "r", CallID: "c", Status: "completed", Usage: thread.Usage{InputTokens: 10, OutputTokens: 5, CachedTokens: 2}, CostUSD: &cost}},
		persistence.PutEvent{ID: "e2", Type: persistence.EventTurnFinished, Data: json.RawMessage(`{"call_id":"c"}`)},
		cut,
		persistence.PutHook{ID: "w", Type: hooked.BudgetWarning, Data: json.RawMessage(`{"call_id":"c","scope":"call","spent_usd":1,"limit_usd":2}`)},
		persistence.PutCall{Call: ended},
		persistence.PutEvent{ID: "e3", Type: persistence.EventCallEnded, Data: json.RawMessage(`{"call_id":"c","reason":"hangup"}`)},
	}
	for range 2 {
		for _, c := range changes {
			applied, err := b.store.ApplyAll(t.Context(), []persistence.ThreadChanges{{Key: b.key, Changes: []persistence.Change{c}}})
			if err != nil || len(applied[0].Lost) > 0 {
				t.Fatalf("ApplyAll() = %+v, %v", applied, err)
			}
		}
	}
	must(t, b.store.Recordings.Save(t.Context(), "anna", recordings.Recording{CallID: "c", StartedAt: start, Duration: 90 * time.Second}))
	started := `call.started {"assistant_id":null,"call_id":"c","upstream":"up"}`
	over := `call.ended {"assistant_id":null,"call_id":"c","cost_usd":0.25,"duration_seconds":90.5,"end_reason":"hangup","recording":false,"turns":3,` +
		`"usage":{"cached_tokens":2,"input_tokens":10,"output_tokens":5,"total_tokens":15},"variables":{}}`
	all := b.got(t, hook.ID)
	if i := slices.IndexFunc(all, func(s string) bool { return strings.HasPrefix(s, "approval.required") }); i < 0 ||
		!strings.Contains(all[i], `"input":{"a":1}`) || !strings.Contains(all[i], `"nonce":"n"`) || !strings.Contains(all[i], `"tool_call_id":"fc"`) || !strings.Contains(all[i], `"name":"get"`) {
		t.Errorf("no question in %q", all)
	} else {
		all = slices.Delete(all, i, i+1)
	}
	testkit.Equal(t, all, []string{
		started,
		`tool.completed {"duration_ms":1500,"executor":"app","name":"get","status":"done","tool_call_id":"fc"}`,
		`message.completed {"message":"m1"}`,
		`turn.finished {"message_id":"m1","status":"completed","usage":{"total_tokens":5}}`,
		`message.completed {"message":"m1"}`,
		`budget.warning {"call_id":"c","limit_usd":2,"scope":"call","spent_usd":1}`,
		over,
		`recording.ready {"call_id":"c","duration_seconds":90}`,
	}, "all events")
	if d := cmp.Diff([]string{started, over}, b.got(t, other.ID)); d != "" {
		t.Errorf("call.* (-want +got):\n%s", d)
	}
	testkit.Equal(t, len(b.got(t, hooked.OperatorID("https://operator.example/"))), 3, "the operator gets events")
	if got := append(b.got(t, stranger.ID), b.got(t, off.ID)...); len(got) != 0 {
		t.Errorf("others get %q", got)
	}
	// What is deleted is not delivered.
	must(t, b.store.DeleteThread(t.Context(), b.key))
	if rows := Rows(t, b.url, "SELECT * FROM hook_deliveries"); len(rows) != 0 {
		t.Errorf("after the thread's end there are %q", rows)
	}
}

// hookRollback has no delivery of what was not saved.
func (s suite) hookRollback(t *testing.T) {
	b := s.setup(t)
	hook := b.hook(t, "*")
	err := b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
		if _, err := w.AppendMessage(text(thread.RoleUser, "never said")); err != nil {
			return err
		}
		return w.SaveTextSession(persistence.TextSession{Tools: "{"})
	})
	wantErr(t, "Batch()", err, persistence.ErrInvalid)
	if got := b.got(t, hook.ID); len(got) != 0 || len(b.store.Hooks.TakeFresh()) != 0 {
		t.Errorf("got %q", got)
	}
	b.append(t, text(thread.RoleUser, "said"))
	if got := b.store.Hooks.TakeFresh(); len(got) != 1 || got[0] != hook.ID {
		t.Errorf("fresh hooks %q, want %s", got, hook.ID)
	}
}

func (s suite) refusedHooks(t *testing.T) {
	b := s.setup(t)
	good := hooked.Hook{Owner: "anna", URL: "https://example.com/", Events: []string{"*"}, Enabled: true}
	for name, change := range map[string]func(*hooked.Hook){
		"no URL":     func(h *hooked.Hook) { h.URL = "" },
		"long URL":   func(h *hooked.Hook) { h.URL = "https://" + strings.Repeat("a", 3000) },
		"NUL":        func(h *hooked.Hook) { h.URL = "https://a\x00" },
		"no events":  func(h *hooked.Hook) { h.Events = nil },
		"many":       func(h *hooked.Hook) { h.Events = slices.Repeat([]string{"*"}, 33) },
		"unknown":    func(h *hooked.Hook) { h.Events = []string{"call.began"} },
		"a space":    func(h *hooked.Hook) { h.Events = []string{"call.ended *"} },
		"a wildcard": func(h *hooked.Hook) { h.Events = []string{"c*"} },
		"percent":    func(h *hooked.Hook) { h.Events = []string{"%"} },
		"empty":      func(h *hooked.Hook) { h.Events = []string{""} },
		"two stars":  func(h *hooked.Hook) { h.Events = []string{"call.**"} },
	} {
		h := good
		change(&h)
		_, err := b.store.Hooks.Add(t.Context(), h)
		wantErr(t, name, err, persistence.ErrInvalid)
	}
	wantErr(t, "no owner", errOf(b.store.Hooks.Add(t.Context(), hooked.Hook{URL: good.URL, Events: good.Events})), persistence.ErrNotFound)
	h, err := b.store.Hooks.Add(t.Context(), good)
	must(t, err)
	hooks := b.store.Hooks
	d, err := hooks.Test(t.Context(), "anna", h.ID)
	must(t, err)
	for _, who := range []string{"bert", "", "\x00"} {
		wantErr(t, "read", errOf(hooks.Hook(t.Context(), who, h.ID)), persistence.ErrNotFound)
		wantErr(t, "change", errOf(hooks.Change(t.Context(), who, h.ID, func(*hooked.Hook) error { return nil })), persistence.ErrNotFound)
		wantErr(t, "delete", hooks.Delete(t.Context(), who, h.ID), persistence.ErrNotFound)
		wantErr(t, "test", errOf(hooks.Test(t.Context(), who, h.ID)), persistence.ErrNotFound)
		wantErr(t, "list deliveries", errOf(hooks.Deliveries(t.Context(), who, h.ID, 10)), persistence.ErrNotFound)
		wantErr(t, "retry", errOf(hooks.Retry(t.Context(), who, h.ID, d.ID)), persistence.ErrNotFound)
	}
	for range hooked.MaxHooks - 1 {
		must(t, errOf(hooks.Add(t.Context(), good)))
	}
	wantErr(t, "one more", errOf(hooks.Add(t.Context(), good)), persistence.ErrQuota)
	must(t, hooks.Delete(t.Context(), "anna", h.ID))
	if list, err := hooks.List(t.Context(), "anna"); err != nil || len(list) != hooked.MaxHooks-1 {
		t.Errorf("List() = %d hooks, %v", len(list), err)
	}
	if rows := Rows(t, b.url, "SELECT * FROM hook_deliveries"); len(rows) != 0 {
		t.Errorf("after the hook's end there are %q", rows)
	}
}

// fakeClock is a clock that a test turns.
type fakeClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *fakeClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *fakeClock) turn(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(by)
}

// hookRetries follows a delivery through all of its attempts, in virtual time.
func (s suite) hookRetries(t *testing.T) {
	clock := &fakeClock{at: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	url := s.newURL(t)
	store := Open(t, url, persistence.Options{Clock: clock.now})
	b := bundle{url: url, store: store, key: newThread(t, store, "anna")}
	hook, ctx := b.hook(t, "*"), t.Context()
	d, err := store.Hooks.Test(ctx, "anna", hook.ID)
	must(t, err)
	clock.turn(48 * time.Hour) // the day of attempts begins with the first
	claim := func() []hooked.Delivery {
		_, claimed, err := store.Hooks.Claim(ctx, hook.ID, 10, false)
		must(t, err)
		return claimed
	}
	ladder := func(first int) {
		t.Helper()
		for i, pause := range []time.Duration{
			5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 6 * time.Hour, 6 * time.Hour, 0,
		} {
			claimed := claim()
			if len(claimed) != 1 || claimed[0].ID != d.ID || claimed[0].Attempts != first+i {
				t.Fatalf("attempt %d: claimed %+v", i, claimed)
			}
			if again := claim(); len(again) != 0 {
				t.Fatalf("attempt %d: claimed twice", i)
			}
			wantErr(t, "retry while it is sent", errOf(store.Hooks.Retry(ctx, "anna", hook.ID, d.ID)), persistence.ErrConflict)
			after, found, err := store.Hooks.Finish(ctx, claimed[0], hooked.Outcome{Status: 500})
			must(t, err)
			if pause == 0 {
				if !found || after.State != hooked.Failed || after.NextAt != nil {
					t.Fatalf("in the end it is %+v", after)
				}
				break
			}
			if !found || after.State != hooked.Waiting || after.NextAt == nil || after.NextAt.Sub(clock.now()) != pause {
				t.Fatalf("attempt %d: %+v at %v, want a pause of %v", i, after, clock.now(), pause)
			}
			clock.turn(pause - time.Millisecond)
			if early := claim(); len(early) != 0 {
				t.Fatalf("attempt %d: claimed too early", i+1)
			}
			clock.turn(time.Millisecond)
		}
	}
	ladder(1)
	clock.turn(24 * time.Hour)
	if claimed := claim(); len(claimed) != 0 {
		t.Fatal("what has failed is claimed")
	}
	must(t, errOf(store.Hooks.Retry(ctx, "anna", hook.ID, d.ID)))
	ladder(10) // by hand, the whole ladder once more
	must(t, errOf(store.Hooks.Retry(ctx, "anna", hook.ID, d.ID)))
	last := claim()[0]
	must(t, store.Hooks.GiveBack(ctx, last))
	last = claim()[0]
	if after, found, err := store.Hooks.Finish(ctx, last, hooked.Outcome{Status: 204}); err != nil || !found || after.State != hooked.Delivered || after.ID != d.ID {
		t.Errorf("Finish() = %+v, %v, %v", after, found, err)
	}
	if _, found, err := store.Hooks.Finish(ctx, last, hooked.Outcome{Status: 500}); err != nil || found {
		t.Errorf("a second end counts: %v", err)
	}
	list, err := store.Hooks.Deliveries(ctx, "anna", hook.ID, 10)
	if must(t, err); len(list) != 1 || list[0].State != hooked.Delivered || list[0].LastStatus != 204 || list[0].Attempts != 20 {
		t.Errorf("deliveries %+v", list)
	}

	// 410 switches the hook off, and what else there is waits until it is on again.
	must(t, errOf(store.Hooks.Test(ctx, "anna", hook.ID)))
	must(t, errOf(store.Hooks.Test(ctx, "anna", hook.ID)))
	_, one, err := store.Hooks.Claim(ctx, hook.ID, 1, false)
	must(t, err)
	if after, _, err := store.Hooks.Finish(ctx, one[0], hooked.Outcome{Status: 410}); err != nil || after.State != hooked.Failed {
		t.Errorf("after 410: %+v, %v", after, err)
	}
	gone, err := store.Hooks.Hook(ctx, "anna", hook.ID)
	if must(t, err); gone.Enabled || gone.OffReason != hooked.GoneReason || len(claim()) != 0 {
		t.Errorf("after 410 the hook is %+v", gone)
	}
	if due, err := store.Hooks.Due(ctx); err != nil || len(due) != 0 {
		t.Errorf("Due() = %q, %v", due, err)
	}
	must(t, errOf(store.Hooks.Change(ctx, "anna", hook.ID, func(h *hooked.Hook) error { h.Enabled = true; return nil })))
	if due, err := store.Hooks.Due(ctx); err != nil || len(due) != 1 {
		t.Errorf("Due() = %q, %v", due, err)
	}
	// Old ones are forgotten, those of a hook that is off later.
	clock.turn(8 * 24 * time.Hour)
	must(t, store.Hooks.Forget(ctx))
	wantRows(t, url, "SELECT state FROM hook_deliveries", "waiting")
	clock.turn(23 * 24 * time.Hour)
	must(t, store.Hooks.Forget(ctx))
	wantRows(t, url, "SELECT state FROM hook_deliveries")
}

// recoverHooks has another process send what a dead one was sending, and no other.
func (s suite) recoverHooks(t *testing.T) {
	b := s.serving(t)
	hook := b.hook(t, "*")
	for range 3 {
		must(t, errOf(b.store.Hooks.Test(t.Context(), "anna", hook.ID)))
	}
	_, lost, err := b.store.Hooks.Claim(t.Context(), hook.ID, 2, false)
	if must(t, err); len(lost) != 2 {
		t.Fatalf("claimed %d", len(lost))
	}
	must(t, errOf(b.store.Recover(t.Context())))
	if _, claimed, err := b.store.Hooks.Claim(t.Context(), hook.ID, 10, false); err != nil || len(claimed) != 1 {
		t.Fatalf("while the process lives: claimed %d, %v", len(claimed), err)
	}
	if _, claimed, err := b.store.Hooks.Claim(t.Context(), hook.ID, 10, true); err != nil || len(claimed) != 3 {
		t.Fatalf("without knowing of its claims: claimed %d, %v", len(claimed), err)
	}
	b = b.restart(t)
	must(t, errOf(b.store.Recover(t.Context())))
	_, claimed, err := b.store.Hooks.Claim(t.Context(), hook.ID, 10, false)
	if must(t, err); len(claimed) != 3 {
		t.Fatalf("after its death: claimed %d, want 3", len(claimed))
	}
	if _, found, err := b.store.Hooks.Finish(t.Context(), lost[0], hooked.Outcome{Status: 200}); err != nil || found {
		t.Errorf("the dead process ends a claim: %v", err)
	}
}

// recoverHookEvents tells hooks what a dead process can no longer tell.
func (s suite) recoverHookEvents(t *testing.T) {
	b := s.serving(t)
	hook := b.hook(t, "call.ended", "tool.completed", "turn.finished", "message.completed")
	leaveOpen(t, b)
	must(t, b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error { return w.ClaimTurn("turn") }))
	b = b.restart(t)
	must(t, errOf(b.store.Recover(t.Context())))
	counts := map[string]int{}
	for _, e := range b.got(t, hook.ID) {
		kind, data, _ := strings.Cut(e, " ")
		counts[kind]++
		if kind == hooked.CallEnded && !strings.Contains(data, `"end_reason":"process_ended"`) || kind == hooked.ToolCompleted && !strings.Contains(data, `"status":"failed"`) {
			t.Errorf("got %s", e)
		}
	}
	if counts[hooked.CallEnded] != 1 || counts[hooked.ToolCompleted] != 1 || counts[hooked.TurnFinished] == 0 || counts[hooked.MessageCompleted] < 6 {
		t.Errorf("got %v", counts)
	}
}

// concurrentHookClaims has several processes take deliveries of one hook: each goes to one.
func (s suite) concurrentHookClaims(t *testing.T) {
	b := s.setup(t)
	hook := b.hook(t, "*")
	const events = 60
	for range events {
		must(t, errOf(b.store.Hooks.Test(t.Context(), "anna", hook.ID)))
	}
	stores := []*persistence.Store{b.store}
	if strings.HasPrefix(b.url, "postgres") {
		stores = append(stores, Open(t, b.url, persistence.Options{}), Open(t, b.url, persistence.Options{}))
	}
	var mu sync.Mutex
	taken := map[string]int{}
	var claiming sync.WaitGroup
	for _, store := range stores {
		for range 2 {
			claiming.Go(func() {
				for {
					_, claimed, err := store.Hooks.Claim(t.Context(), hook.ID, 4, false)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for _, d := range claimed {
						taken[d.ID]++
					}
					enough := len(taken) == events
					mu.Unlock()
					if enough || len(claimed) == 0 {
						return
					}
				}
			})
		}
	}
	claiming.Wait()
	for id, n := range taken {
		testkit.Equal(t, n, 1, "%s was taken times", id)
	}
	testkit.Equal(t, len(taken), events, "of were taken")
}

// hookBytes counts what is kept for hooks among what their owner stores: a message is there once more for each.
func (s suite) hookBytes(t *testing.T) {
	b, ctx := s.setup(t), t.Context()
	const size, hooks = 10_000, 3
	var last hooked.Hook
	for range hooks {
		last = b.hook(t, hooked.MessageCompleted)
	}
	must(t, b.store.Batch(ctx, b.key, func(w *persistence.Batch) error {
		_, err := w.AppendMessage(text(thread.RoleUser, strings.Repeat("x", size)))
		return err
	}))
	wantErr(t, "with all copies", b.store.Records.CheckStored(ctx, b.key.Owner, (hooks+1)*size), persistence.ErrQuota)
	must(t, b.store.Hooks.Delete(ctx, b.key.Owner, last.ID))
	must(t, b.store.Records.CheckStored(ctx, b.key.Owner, (hooks+1)*size))
	wantErr(t, "with the other copies", b.store.Records.CheckStored(ctx, b.key.Owner, hooks*size), persistence.ErrQuota)
}
