package mcptool

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestCutStream has streams of notifications that a server or a proxy cuts, and what follows when they are asked for
// again.
func TestCutStream(t *testing.T) {
	t.Parallel()
	const over = "data: {\"id\":1,\"result\":{}}\n\n"
	for name, c := range map[string]struct {
		answers            []string // a status, or the beginning of a stream
		want               string
		ids                string // with which it is asked for
		reopened, suspects int
	}{
		"silent":            {answers: []string{"", over}, want: "\n\n" + over, ids: ",", reopened: 1},
		"often":             {answers: []string{"", "", "", "", "", "", "", over}, want: strings.Repeat("\n\n", 7) + over, ids: ",,,,,,,", reopened: 7},
		"after an event":    {answers: []string{"data: {}\n\n", over}, want: "data: {}\n\n\n\n" + over, ids: ",", reopened: 1},
		"within an event":   {answers: []string{"data: {}\n\ndata: {", over}, want: "data: {}\n\n" + over, ids: ",", reopened: 1},
		"with event ids":    {answers: []string{"id: 1\ndata: {}\n\nid: 2\ndata: {}\n\n", over}, want: "id: 1\ndata: {}\n\nid: 2\ndata: {}\n\n\n\n" + over, ids: ",2", reopened: 1},
		"an id is unknown":  {answers: []string{"id: 1\n\n", "400", over}, want: "id: 1\n\n\n\n" + over, ids: ",1,", reopened: 1},
		"ended by a result": {answers: []string{over}, want: over},
		"an outage":         {answers: []string{"", "502", "cut", "503", over}, want: "\n\n" + over, ids: ",,,,", reopened: 1, suspects: 3},
		"cut before":        {answers: []string{"cut", over}, want: over, ids: ",", suspects: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ids []string
			bodies := map[string]bool{}
			reopened, suspects := 0, 0
			r := &remote{trace: func(context.Context, http.Header) {}, streams: streams{
				read:     func(message []byte) []byte { return message },
				reopened: func() { reopened++ }, suspect: func() { suspects++ }, pause: time.Microsecond, longest: time.Microsecond,
			}}
			h := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				answer := c.answers[len(ids)]
				ids = append(ids, request.Header.Get("Last-Event-Id"))
				body, _ := io.ReadAll(request.Body)
				bodies[string(body)] = true
				if answer == "cut" {
					panic(http.ErrAbortHandler)
				}
				if status, err := strconv.Atoi(answer); err == nil {
					w.WriteHeader(status)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, answer)
			}))
			r.config = Server{Type: TypeHTTP, URL: h.url}
			if _, err := r.connect(); err != nil {
				t.Fatal(err)
			}
			defer r.stop()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url, strings.NewReader("listen"))
			must(t, err)
			request.Header.Set("Mcp-Method", "subscriptions/listen")
			response, err := r.client.Do(request)
			must(t, err)
			defer response.Body.Close()
			if got, err := io.ReadAll(response.Body); err != nil || string(got) != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
			if got := strings.Join(ids, ","); got != c.ids || reopened != c.reopened || suspects != c.suspects || len(bodies) != 1 || !bodies["listen"] {
				t.Errorf("asked with the ids %q and the bodies %v, reopened %d times, suspected %d times", got, bodies, reopened, suspects)
			}
		})
	}
}

// TestNoStream has servers without a stream: nothing ever comes, and nothing is wrong.
func TestNoStream(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusMethodNotAllowed, http.StatusBadGateway} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			h := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				cancel()
			}))
			suspects := 0
			r := &remote{config: Server{Type: TypeHTTP, URL: h.url}, streams: streams{suspect: func() { suspects++ }}, trace: func(context.Context, http.Header) {}}
			if _, err := r.connect(); err != nil {
				t.Fatal(err)
			}
			defer r.stop()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, nil)
			must(t, err)
			response, err := r.client.Do(request)
			must(t, err)
			defer response.Body.Close()
			if got, err := io.ReadAll(response.Body); !errors.Is(err, context.Canceled) || len(got) > 0 || suspects != 0 {
				t.Errorf("got %q, %v, suspected %d times", got, err, suspects)
			}
		})
	}
}

// TestStreamWithoutHead has a server that answers the request for its stream with the first event only,
// which never comes.
func TestStreamWithoutHead(t *testing.T) {
	t.Parallel()
	var asked atomic.Bool
	next := newHTTPHandler(t)
	h := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			asked.Store(true)
			<-r.Context().Done()
			return
		}
		next.ServeHTTP(w, r)
	}))
	b := open(t, map[string]Server{"s": {Type: TypeHTTP, URL: h.url}})
	for !asked.Load() {
		if result := b.call(t, "s__echo", `{"text":"x"}`); result.Model != "x" {
			t.Fatalf("got %+v\n%s", result, b.log)
		}
	}
}
