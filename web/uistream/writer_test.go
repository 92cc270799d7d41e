package uistream_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/chat"
	"voicebridge/web/uistream"
)

// TestAllQuestions: a stream that ends at questions has all those of the calls in it, however long
// one takes to be saved.
func TestAllQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		call := func(kind chat.EventType, id string) chat.Event {
			return chat.Event{Type: kind, Call: &chat.EventCall{ID: id, Name: "add", Input: json.RawMessage("{}"), Asks: kind == chat.EventToolInput}}
		}
		ctx, stop := context.WithCancel(t.Context())
		events := func(yield func(chat.Event, error) bool) {
			for _, e := range []chat.Event{
				{Type: chat.EventStart}, call(chat.EventToolInput, "c1"), call(chat.EventToolInput, "c2"), call(chat.EventToolInput, "c3"),
				call(chat.EventToolApproval, "c1"), call(chat.EventToolOutput, "c3"),
			} {
				if !yield(e, nil) {
					return
				}
			}
			time.Sleep(time.Minute) // the database is slow
			yield(call(chat.EventToolApproval, "c2"), nil)
			<-ctx.Done()
		}
		out := httptest.NewRecorder()
		w := uistream.New(out, uistream.Timing{KeepAlive: 10 * time.Second, Write: time.Second}, "", func(err error) string { return err.Error() })
		w.AskInStates()
		if err := w.Follow(events, stop); err != nil {
			t.Errorf("Follow() = %v", err)
		}
		if got := out.Body.String(); strings.Count(got, "tool-approval-request") != 2 || !strings.HasSuffix(got, "data: [DONE]\n\n") {
			t.Errorf("the stream is\n%s", got)
		}
	})
}
