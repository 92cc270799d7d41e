package web

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/web/access"
)

func TestThreads(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	r := b.do(t, "POST", "/api/threads", `{"title":"  Grüße 👋  "}`)
	wantStatus(t, r, 201)
	made := decode[persistence.Thread](t, r)
	if made.ID == "" || made.Title != "Grüße 👋" || made.CreatedAt.IsZero() || r.Header.Get("Location") != "/api/threads/"+made.ID {
		t.Fatalf("made %+v, headers %v", made, r.Header)
	}
	one := "/api/threads/" + made.ID
	if got := decode[persistence.Thread](t, b.do(t, "GET", one, "")); !reflect.DeepEqual(got, made) {
		t.Errorf("read %+v, want %+v", got, made)
	}
	r = b.do(t, "PATCH", one, `{"title":"new"}`)
	wantStatus(t, r, 200)
	if got := decode[persistence.Thread](t, r); got.Title != "new" || got.ID != made.ID {
		t.Errorf("renamed to %+v", got)
	}
	wantStatus(t, b.do(t, "PATCH", one, `{"title":""}`), 200) // a title can be removed
	wantStatus(t, b.do(t, "POST", "/api/threads", ""), 201)   // and is optional

	b.say(t, thread.Key{Owner: access.LocalOwner, Thread: made.ID}, "hello")
	r = b.do(t, "POST", one+"/reset", "")
	wantStatus(t, r, 200)
	if got := decode[persistence.Thread](t, r); got.ID != made.ID {
		t.Errorf("reset %+v", got)
	}
	if left, err := b.db.Replay(t.Context(), thread.Key{Owner: access.LocalOwner, Thread: made.ID}, 20); err != nil || len(left) != 0 {
		t.Errorf("after the reset %d messages are replayed, err %v", len(left), err)
	}

	wantStatus(t, b.do(t, "POST", callsPath+"?thread_id="+made.ID, sdpOffer, sdpType), 201)
	wantStatus(t, b.do(t, "DELETE", one, ""), 204)
	if len(b.calls.hungUp) != 1 {
		t.Error("the live call of the deleted thread goes on")
	}
	for _, method := range []string{"GET", "DELETE"} {
		wantError(t, b.do(t, method, one, ""), 404, "thread_not_found")
	}
}

func TestListThreads(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	testkit.Equal(t, b.do(t, "GET", "/api/threads", "").body, `{"threads":[],"next_cursor":null}`+"\n", "an empty list")
	for i := range 5 {
		wantStatus(t, b.do(t, "POST", "/api/threads", fmt.Sprintf(`{"title":"thread %d"}`, i)), 201)
	}
	var titles []string
	for cursor := ""; ; {
		r := b.do(t, "GET", "/api/threads?limit=2&cursor="+url.QueryEscape(cursor), "")
		wantStatus(t, r, 200)
		page := decode[threadPage](t, r)
		for _, th := range page.Threads {
			titles = append(titles, th.Title)
		}
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	testkit.Equal(t, strings.Join(titles, ","), "thread 4,thread 3,thread 2,thread 1,thread 0", "titles")
	if page := decode[threadPage](t, b.do(t, "GET", "/api/threads?q=3", "")); len(page.Threads) != 1 || page.Threads[0].Title != "thread 3" {
		t.Errorf("found %+v", page.Threads)
	}
}

func TestListMessages(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	key := b.thread(t, access.LocalOwner)
	path := "/api/threads/" + key.Thread + "/messages"
	testkit.Equal(t, b.do(t, "GET", path, "").body, `{"messages":[],"next_after":null}`+"\n", "an empty thread")
	var last int64
	for i := range 5 {
		last = b.say(t, key, fmt.Sprint("message ", i)).Seq
	}
	type page struct {
		Messages  []thread.Message
		NextAfter *int64 `json:"next_after"`
	}
	var words []string
	after := int64(0)
	for {
		r := b.do(t, "GET", fmt.Sprintf("%s?limit=2&after=%d", path, after), "")
		wantStatus(t, r, 200)
		p := decode[page](t, r)
		if len(p.Messages) == 0 {
			if p.NextAfter != nil {
				t.Errorf("next_after %d after an empty page", *p.NextAfter)
			}
			break
		}
		if p.NextAfter == nil {
			t.Fatal("next_after is null after a page with messages")
		}
		after = *p.NextAfter
		for _, m := range p.Messages {
			words = append(words, m.Parts[0].Text)
		}
	}
	if got := strings.Join(words, ","); got != "message 0,message 1,message 2,message 3,message 4" || after != last {
		t.Errorf("messages %s, up to %d of %d", got, after, last)
	}
}

func TestSentenceWith(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 200)
	for name, c := range map[string]struct {
		text  string
		words []string
		want  string
	}{
		"the sentence of a text":      {"It rained. The train was late! Nobody minded.", []string{"train"}, "The train was late!"},
		"the first of the words":      {"One is here. Two is there.", []string{"two", "one"}, "One is here."},
		"lines are spaces":            {"a list:\n\n- one\n- two", []string{"two"}, "a list: - one - two"},
		"no word":                     {"Nothing of that.", []string{"rain"}, "Nothing of that."},
		"nothing":                     {"", []string{"rain"}, ""},
		"a long one, cut on one side": {"Rain " + long, []string{"rain"}, "Rain " + strings.TrimSpace(long[:155]) + "…"},
		"lower case that is longer":   {"İstanbul. Rain.", []string{"rain"}, "Rain."},
		"decomposed and full width":   {"Here. Zu\u0308rich, ＡＢＣ。 There.", []string{"Zürich", "abc"}, "Zu\u0308rich, ＡＢＣ。"},
		"a final sigma":               {"Here. Η οδός. There.", []string{"ΟΔΌΣ"}, "Η οδός."},
		"letters of several bytes":    {strings.Repeat("ß", 40) + " Regen", []string{"regen"}, "…Regen"},
	} {
		got := sentenceWith(c.text, c.words)
		testkit.Equal(t, got, c.want, "%s", name)
	}
	if got := sentenceWith(long+"rain "+long, []string{"rain"}); !strings.HasPrefix(got, "…word ") || !strings.Contains(got, "rain") || utf8.RuneCountInString(got) > maxSentence+2 {
		t.Errorf("in the middle of a long text: %q", got)
	}
}
