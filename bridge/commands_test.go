package bridge

import (
	"encoding/json"
	"strings"
	"testing"

	"voicebridge/persistence"
)

// TestHostileCommands has another process send invalid commands: each gets an answer or an
// error, and the call goes on.
func TestHostileCommands(t *testing.T) {
	t.Parallel()
	calls, _ := bareCalls()
	own := persistence.Key{Owner: "ada", Thread: "thread-1"}
	live := newCall("call-1", own, quiet())
	calls.live[own], calls.byID[live.id] = live, live
	const missing = `{"missing":true}`
	for name, c := range map[string]struct {
		owner, kind, body, reply string // no reply: an error
	}{
		"no kind":                     {"ada", "", `{}`, ""},
		"an unknown kind":             {"ada", "call.destroy", `{"call_id":"call-1"}`, ""},
		"a command of queues":         {"ada", "queue.send", `{"id":"x"}`, ""},
		"no body":                     {"ada", commandHangup, ``, ""},
		"half a body":                 {"ada", commandHangup, `{"call_id":`, ""},
		"a list":                      {"ada", commandHangup, `[]`, ""},
		"a number for an id":          {"ada", commandHangup, `{"call_id":5}`, ""},
		"nesting":                     {"ada", commandHangup, strings.Repeat("[", 100_000), ""},
		"nothing to hang up":          {"ada", commandHangup, `null`, missing},
		"a stranger hangs up":         {"bert", commandHangup, `{"call_id":"call-1"}`, missing},
		"nobody hangs up":             {"", commandHangup, `{"call_id":"call-1"}`, missing},
		"a stranger takes over":       {"bert", commandTakeOver, `{"call_id":"call-1"}`, missing},
		"a stranger connects":         {"bert", commandReconnect, `{"call_id":"call-1","offer":"v=0"}`, `"code":"bad_sdp"`},
		"another call":                {"ada", commandHangup, `{"call_id":"call-2"}`, missing},
		"an invalid offer":            {"ada", commandReconnect, `{"call_id":"call-1","offer":"\u0000"}`, `"code":"bad_sdp"`},
		"a stranger frees the thread": {"bert", commandFree, `{}`, "{}"},
		"a stranger interrupts":       {"bert", commandInterrupt, `{}`, "{}"},
		"a stranger resets":           {"bert", commandForget, `{}`, "{}"},
		"a stranger says":             {"bert", commandSay, `{"text":"x"}`, `"code":"no_call"`},
		"an empty text":               {"ada", commandSay, `{"text":" "}`, `"param":"content"`},
		"a huge text":                 {"ada", commandSay, `{"text":"` + strings.Repeat("x", 1<<20) + `"}`, `"param":"content"`},
	} {
		reply, err := calls.HandleCommand(t.Context(), persistence.Command{
			Key: persistence.Key{Owner: c.owner, Thread: own.Thread}, Kind: c.kind, Body: json.RawMessage(c.body),
		})
		if (err == nil) != (c.reply != "") || !strings.Contains(strings.ToLower(string(reply)), c.reply) {
			t.Errorf("%s: %s, %v, want %s", name, reply, err, c.reply)
		}
	}
	select {
	case <-live.quit:
		t.Error("the call was ended")
	default:
	}
}
