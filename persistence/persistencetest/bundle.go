package persistencetest

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"voicebridge/persistence"
	"voicebridge/thread"
)

// suite is the tests with the engine they run on.
type suite struct {
	// newURL names a database with tables and no rows, emptyURL one without tables.
	newURL, emptyURL func(testing.TB) string
}

// bundle is an open store with a thread in it.
type bundle struct {
	url   string
	store *persistence.Store
	key   thread.Key
}

func (s suite) setup(t *testing.T) bundle {
	t.Helper()
	url := s.newURL(t)
	store := Open(t, url, persistence.Options{})
	return bundle{url: url, store: store, key: newThread(t, store, "anna")}
}

// serving is setup with a store that serves.
func (s suite) serving(t *testing.T) bundle {
	t.Helper()
	b := s.setup(t)
	must(t, b.store.Serve(t.Context()))
	return b
}

// restart ends the process that has the bundle's store, and has another one serve.
func (b bundle) restart(t *testing.T) bundle {
	t.Helper()
	must(t, b.store.Close())
	b.store = Open(t, b.url, persistence.Options{})
	must(t, b.store.Serve(t.Context()))
	return b
}

func newThread(t *testing.T, store *persistence.Store, owner string) thread.Key {
	t.Helper()
	return NewThread(t, store, owner, "a title")
}

// text is a finished message with one text part.
func text(role thread.Role, words string) thread.Message {
	return thread.Message{Role: role, Parts: []thread.Part{thread.TextPart(words)}}
}

func (b bundle) append(t *testing.T, m thread.Message) thread.Message {
	t.Helper()
	saved, err := AppendMessage(t.Context(), b.store, b.key, m)
	must(t, err)
	return saved
}

func (b bundle) insert(t *testing.T, m thread.Message, afterID string) thread.Message {
	t.Helper()
	saved, err := InsertMessage(t.Context(), b.store, b.key, m, afterID)
	must(t, err)
	return saved
}

// all reads the thread's messages, page by page.
func (b bundle) all(t *testing.T) []thread.Message {
	t.Helper()
	var all []thread.Message
	for after := int64(0); ; {
		page, err := b.store.Messages(t.Context(), b.key, after, 7)
		must(t, err)
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = page[len(page)-1].Seq
	}
}

// words returns the texts of messages in one line, which reads well in a failure.
func words(messages []thread.Message) string {
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

// errOf returns the error of a function whose other result does not matter.
func errOf[T any](_ T, err error) error { return err }

// diff compares raw JSON by its value: jsonb changes the order of keys and the white space.
func diff(want, got any) string {
	return cmp.Diff(want, got, sameJSON,
		cmp.FilterValues(func(_, _ []thread.Part) bool { return true }, cmpopts.EquateEmpty()),
		cmp.FilterValues(func(_, _ []string) bool { return true }, cmpopts.EquateEmpty()))
}

var sameJSON = cmp.Comparer(func(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return string(a) == string(b)
	}
	return reflect.DeepEqual(x, y)
})
