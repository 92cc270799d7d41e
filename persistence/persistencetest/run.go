package persistencetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"voicebridge/persistence"
)

// patience is how long a test waits for an event that must come.
const patience = 3 * time.Minute

// suite is the tests with the engine they run on.
type suite struct {
	// newURL names a database with tables and no rows, emptyURL one without tables.
	newURL, emptyURL func(testing.TB) string
}

// Run runs the tests that every engine must pass. newURL gives a database with tables
// and no rows for each call, SQLiteURL or PostgresURL; emptyURL one without tables.
func Run(t *testing.T, newURL, emptyURL func(testing.TB) string) {
	s := suite{newURL: newURL, emptyURL: emptyURL}
	tests := map[string]func(*testing.T){
		"access tokens":        s.accessTokens,
		"tool pins":            s.toolPins,
		"signing secret":       s.signingSecret,
		"ensure thread":        s.ensureThread,
		"threads":              s.threads,
		"thread pages":         s.threadPages,
		"search":               s.search,
		"thread limits":        s.threadLimits,
		"migrations":           s.migrations,
		"open":                 s.open,
		"messages":             s.messages,
		"message defaults":     s.messageDefaults,
		"hostile messages":     s.hostileMessages,
		"refused messages":     s.refusedMessages,
		"insert":               s.insert,
		"insert and reset":     s.insertAndReset,
		"concurrent inserts":   s.concurrentInserts,
		"concurrent appends":   s.concurrentAppends,
		"update":               s.update,
		"replay":               s.replay,
		"odd time zones":       s.oddTimeZones,
		"batch":                s.batch,
		"batch rolls back":     s.batchRollsBack,
		"records":              s.records,
		"hostile records":      s.hostileRecords,
		"usage":                s.usage,
		"usage limits":         s.usageLimits,
		"live call":            s.liveCall,
		"strangers":            s.strangers,
		"transcript view":      s.transcriptView,
		"tool call view":       s.toolCallView,
		"call summary view":    s.callSummaryView,
		"watch":                s.watch,
		"watch a change":       s.watchChange,
		"watch from the end":   s.watchFromEnd,
		"watch inserts":        s.watchInserts,
		"watch many writers":   s.watchManyWriters,
		"watch slowly":         s.watchSlowly,
		"watch ends":           s.watchEnds,
		"publish":              s.publish,
		"recover":              s.recover,
		"recover leaves alive": s.recoverLeavesAlive,
		"delete":               s.deleteThread,
		"turns":                s.turns,
		"lost turn":            s.lostTurn,
		"concurrent claims":    s.concurrentClaims,
		"recover turns":        s.recoverTurns,
		"tool calls in batch":  s.toolCallsInBatch,
		"read and write":       s.readAndWrite,
		"approvals":            s.approvals,
		"refused approvals":    s.refusedApprovals,
		"settled approvals":    s.settledApprovals,
		"concurrent answers":   s.concurrentAnswers,
		"watch approvals":      s.watchApprovals,
		"recover approvals":    s.recoverApprovals,
		"text sessions":        s.textSessions,
		"titles":               s.titles,
		"search messages":      s.searchMessages,
		"queue":                s.queue,
		"queue refuses":        s.queueRefuses,
		"queue order":          s.queueOrder,
		"queue claims":         s.queueClaims,
		"queue leases":         s.queueLeases,
		"queue and turns":      s.queueAndTurns,
		"queue and calls":      s.queueAndCalls,
		"queue pauses":         s.queuePauses,
		"concurrent adds":      s.concurrentAdds,
		"concurrent senders":   s.concurrentSenders,
		"due queues":           s.dueQueues,
		"recover queues":       s.recoverQueues,
		"upstream legs":        s.legs,
		"hang up":              s.hangUp,
		"hang up deleted":      s.hangUpDeleted,
		"recover legs":         s.recoverLegs,
		"drafts":               s.drafts,
		"strangers' drafts":    s.strangersDrafts,
		"recover drafts":       s.recoverDrafts,
		"watch drafts":         s.watchDrafts,
		"changes":              s.changes,
		"lost changes":         s.lostChanges,
		"superseded turn":      s.supersededTurn,
		"erase many":           s.eraseMany,
		"erase left":           s.eraseLeft,
		"erase served":         s.eraseServed,
		"erase for new":        s.eraseForNew,
		"expire":               s.expire,
		"replay after reset":   s.replayAfterReset,
		"commands":             s.commands,
		"images":               s.images,
		"limits":               s.limits,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// bundle is an open store with a thread in it.
type bundle struct {
	url   string
	store *persistence.Store
	key   persistence.Key
}

func (s suite) setup(t *testing.T) bundle {
	t.Helper()
	url := s.newURL(t)
	store := Open(t, url, persistence.Options{})
	return bundle{url: url, store: store, key: newThread(t, store, "anna")}
}

func newThread(t *testing.T, store *persistence.Store, owner string) persistence.Key {
	t.Helper()
	th, err := store.CreateThread(t.Context(), owner, "a title")
	if err != nil {
		t.Fatalf("CreateThread() = %v", err)
	}
	return persistence.Key{Owner: owner, Thread: th.ID}
}

// text is a finished message with one text part.
func text(role persistence.Role, words string) persistence.Message {
	return persistence.Message{Role: role, Parts: []persistence.Part{persistence.TextPart(words)}}
}

func (b bundle) append(t *testing.T, m persistence.Message) persistence.Message {
	t.Helper()
	saved, err := b.store.AppendMessage(t.Context(), b.key, m)
	if err != nil {
		t.Fatalf("AppendMessage() = %v", err)
	}
	return saved
}

func (b bundle) insert(t *testing.T, m persistence.Message, afterID string) persistence.Message {
	t.Helper()
	saved, err := b.store.InsertMessage(t.Context(), b.key, m, afterID)
	if err != nil {
		t.Fatalf("InsertMessage() = %v", err)
	}
	return saved
}

// all reads the thread's messages, page by page.
func (b bundle) all(t *testing.T) []persistence.Message {
	t.Helper()
	var all []persistence.Message
	for after := int64(0); ; {
		page, err := b.store.Messages(t.Context(), b.key, after, 7)
		if err != nil {
			t.Fatalf("Messages() = %v", err)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = page[len(page)-1].Seq
	}
}

// words returns the texts of messages in one line, which reads well in a failure.
func words(messages []persistence.Message) string {
	texts := make([]string, 0, len(messages))
	for _, m := range messages {
		texts = append(texts, m.Text())
	}
	return strings.Join(texts, " ")
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s = %v, want %v", what, err, want)
	}
}

// diff compares as JSON: jsonb changes the order of keys and the white space.
func diff(want, got any) string {
	return cmp.Diff(want, got, sameJSON,
		cmp.FilterValues(func(_, _ []persistence.Part) bool { return true }, cmpopts.EquateEmpty()),
		cmp.FilterValues(func(_, _ []string) bool { return true }, cmpopts.EquateEmpty()))
}

// within returns a context for an operation that must not take long.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, fmt.Errorf("more than %v passed", patience))
	t.Cleanup(cancel)
	return ctx
}
