package web

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"voicebridge/web/access"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

func TestShortened(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"content":"a"}`:                          `{"content":"a"}`,
		`{"messages":[{"a":1},{"b":[2,3]}]}`:       `{"messages":[{"b":[2,3]}]}`,
		`{"messages" : [ {"a":1} , {"b":"],["} ]`:  `{"messages" : [ {"b":"],["} ]`,
		`{"messages":[{"a":"\\\"],"},7],"id":"x"}`: `{"messages":[7],"id":"x"}`,
		`{"messages":[],"trigger":"messages"}`:     `{"messages":[],"trigger":"messages"}`,
		`{"x":{"messages":[1,2]},"y":[1,2]}`:       `{"x":{"messages":[1,2]},"y":[1,2]}`,
		`{"y":"messages","z":[1,2]}`:               `{"y":"messages","z":[1,2]}`,
		`{"messages":"a","z":[1,2]}`:               `{"messages":"a","z":[1,2]}`,
		`{"messages":{"a":[1,2]}}`:                 `{"messages":{"a":[1,2]}}`,
		`{"messages":[1,2],"messages":[3,4]}`:      `{"messages":[2],"messages":[4]}`,
		`{"messages":["\\",1],"a\\\"\\":["\"",2]}`: `{"messages":[1],"a\\\"\\":["\"",2]}`,
		`["messages",[1,2]]`:                       `["messages",[1,2]]`,
		`}}],:"`:                                   `}}],:"`,
		``:                                         ``,
	} {
		for _, arrives := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in)), iotest.HalfReader(strings.NewReader(in))} {
			if got, err := shortened(arrives, maxChatMessage); err != nil || string(got) != want {
				t.Errorf("%s: got %s, %v, want %s", in, got, err, want)
			}
		}
	}
}

func TestShortenedHasLimits(t *testing.T) {
	t.Parallel()
	const limit = input.MaxBody // so that what is beside the message has as much
	long := strings.Repeat("a", limit)
	for name, in := range map[string]string{
		"the last message": `{"messages":[1,"` + long + `"],"id":"x"}`,
		"no list":          `{"messages":"` + long + long + `"}`,
		"many lists":       `{` + strings.Repeat(`"messages":["`+long[:len(long)-9]+`"],`, 2) + `"id":"x"}`,
		"another field":    `{"x":"` + long + long + `","messages":[1,2]}`,
	} {
		_, err := shortened(strings.NewReader(in), limit)
		if e, ok := errors.AsType[*problem.Error](err); !ok || e.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %v", name, err)
		}
	}
	body := http.MaxBytesReader(nil, io.NopCloser(strings.NewReader(`{"messages":[1,2]}`)), 10)
	if _, err := shortened(body, limit); classify(err).Status != http.StatusRequestEntityTooLarge {
		t.Errorf("a conversation that is too long: %v", err)
	}
}

// TestUseChatSendsALongConversation has pictures in it that are larger than one message may be, as
// after a message that was refused: the last one counts.
func TestUseChatSendsALongConversation(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	key := b.thread(t, access.LocalOwner)
	picture := `{"type":"file","mediaType":"image/png","url":"data:image/png;base64,` + strings.Repeat("A", maxChatMessage) + `"}`
	conversation := func(parts string) string {
		return fmt.Sprintf(`{"id":"c","messages":[{"id":"a","role":"user","parts":[%s]},{"id":"b","role":"user","parts":[%s]}],"trigger":"submit-message"}`, picture, parts)
	}
	wantStatus(t, b.do(t, "POST", messagesPath(key), conversation(`{"type":"text","text":"hello"}`)), 200)
	if got := b.messages(t, key); len(got) != 2 || got[0].ID != "b" || got[0].Text() != "hello" {
		t.Errorf("saved %+v", got)
	}
	wantError(t, b.do(t, "POST", messagesPath(key), conversation(picture)), 413, "too_large")
}

// TestLargeMessagesGiveTheirMemoryBack has more large messages than fit into what is left of an owner's share of the memory,
// each of which waits for its answer.
func TestLargeMessagesGiveTheirMemoryBack(t *testing.T) {
	t.Parallel()
	cfg, _ := scriptedChat(held("One.", nil))
	b := setupChat(t, cfg, nil)
	server := b.listen(t)
	const left, size = 512 << 10, 128 << 10
	for share := access.MaxBodiesPerOwner - left; share > 0; share -= maxKept {
		arrivesNever(t, server.Listener.Addr().String(), messagesPath(b.thread(t, access.LocalOwner)), min(share, maxKept))
	}
	large := `{"type":"data-x","data":"` + strings.Repeat("a", size) + `"},`
	for range left/size + 2 {
		body := strings.Replace(uiSaid("a", "hello"), `"role":"user","parts":[`, `"role":"user","parts":[`+large, 1)
		f := follow(t, server, "POST", messagesPath(b.thread(t, access.LocalOwner)), body)
		f.until("text-delta")
	}
}

// arrivesNever begins a request whose body does not arrive: it holds its memory until the test ends.
func arrivesNever(t *testing.T, address, path string, size int) {
	t.Helper()
	conn := rawConn(t, address)
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", path, size)
	must(t, err)
	// The server asks for the body once it has the memory.
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("the server answers %q, %v", line, err)
	}
}
