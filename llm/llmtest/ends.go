package llmtest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"voicebridge/llm"
)

// patience is how long a test waits for something that must happen at once.
const patience = 3 * time.Minute

// ends tests requests that are ended from outside or never reach a server.
func (w Wire) ends(t *testing.T) {
	t.Parallel()
	t.Run("the context", w.theContextEnds)
	t.Run("the consumer breaks", w.theConsumerBreaks)
	t.Run("cancelled before", w.cancelledBefore)
	t.Run("nobody there", w.nobodyThere)
	t.Run("no key", w.noKey)
}

func (w Wire) theContextEnds(t *testing.T) {
	t.Parallel()
	stopped := errors.New("the user said stop")
	for name, c := range map[string]struct {
		end  func(context.Context) (context.Context, func())
		want []error
		kind llm.ErrorKind
	}{
		"cancelled": {
			end:  func(ctx context.Context) (context.Context, func()) { return context.WithCancel(ctx) },
			want: []error{context.Canceled},
		},
		"cancelled with a cause": {
			end: func(ctx context.Context) (context.Context, func()) {
				ctx, cancel := context.WithCancelCause(ctx)
				return ctx, func() { cancel(stopped) }
			},
			want: []error{context.Canceled, stopped},
		},
		"cancelled with a failure": {
			end: func(ctx context.Context) (context.Context, func()) {
				ctx, cancel := context.WithCancelCause(ctx)
				return ctx, func() { cancel(&llm.Error{Kind: llm.KindTimeout, Provider: "x"}) }
			},
			want: []error{context.Canceled},
			kind: llm.KindTimeout,
		},
		"late": {
			end: func(ctx context.Context) (context.Context, func()) {
				late := lateness{ctx, make(chan struct{})}
				return late, func() { close(late.passed) }
			},
			want: []error{context.DeadlineExceeded},
			kind: llm.KindTimeout,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, w.exchange(t, "hang"))
			p := w.New(t, s.URL, s.client(t))
			ctx, end := c.end(t.Context())
			var err error
			for d, e := range p.Stream(ctx, greeting) {
				if err = e; err != nil {
					break
				}
				if d.Text != "" {
					end() // once: the exchange has one piece of text
				}
			}
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("Stream() = %v, want one that is %v", err, want)
				}
			}
			if e, ok := errors.AsType[*llm.Error](err); ok != (c.kind != "") || ok && e.Kind != c.kind {
				t.Errorf("Stream() = %v, want kind %q", err, c.kind)
			}
			s.left(t)
			once(t, s)
		})
	}
}

func (w Wire) theConsumerBreaks(t *testing.T) {
	t.Parallel()
	s := serve(t, w.exchange(t, "hang"))
	for d, err := range w.New(t, s.URL, s.client(t)).Stream(t.Context(), greeting) {
		if err != nil {
			t.Fatalf("Stream() = %v", err)
		}
		if d.Text != "" {
			break
		}
	}
	s.left(t)
	once(t, s)
}

func (w Wire) cancelledBefore(t *testing.T) {
	t.Parallel()
	s := serve(t, w.exchange(t, "text"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := drain(t, w.New(t, s.URL, s.client(t)), ctx, greeting); !errors.Is(err, context.Canceled) {
		t.Errorf("Stream() = %v, want context.Canceled", err)
	}
	if requests, _ := s.seen(); len(requests) != 0 {
		t.Error("the server saw a request")
	}
}

func (w Wire) nobodyThere(t *testing.T) {
	t.Parallel()
	s := serve(t, w.exchange(t, "text"))
	s.Close()
	p := w.New(t, s.URL, s.client(t))
	_, err := drain(t, p, t.Context(), greeting)
	if e := w.check(t, p, err, true); e.Kind != llm.KindUnavailable {
		t.Errorf("Stream() = %v, want kind %s", err, llm.KindUnavailable)
	}
}

func (w Wire) noKey(t *testing.T) {
	t.Parallel()
	if w.Keyless == nil {
		return // the vendor needs none
	}
	p := w.Keyless(t, &http.Client{Transport: nobody{t}})
	_, err := drain(t, p, t.Context(), greeting)
	if e := w.check(t, p, err, false); e.Kind != llm.KindAuth {
		t.Errorf("Stream() = %v, want kind %s", err, llm.KindAuth)
	}
}

// lateness is a context whose deadline passes when a test says so.
type lateness struct {
	context.Context
	passed chan struct{}
}

func (l lateness) Done() <-chan struct{} { return l.passed }

func (l lateness) Err() error {
	select {
	case <-l.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// left waits until the client has disconnected.
func (s *server) left(t *testing.T) {
	t.Helper()
	select {
	case <-s.gone:
	case <-time.After(patience):
		t.Error("the client did not disconnect")
	}
}

// nobody is a network on which nothing may be sent.
type nobody struct{ t *testing.T }

func (n nobody) RoundTrip(r *http.Request) (*http.Response, error) {
	n.t.Errorf("a request was sent to %s", r.URL)
	return nil, errors.New("nobody is there")
}

// Behaviour tests what must hold for all providers, even those without a wire. The providers from
// setup answer every request with some text.
func Behaviour(t *testing.T, setup func(t *testing.T) llm.Provider) {
	t.Helper()
	t.Run("answers", func(t *testing.T) {
		t.Parallel()
		p := setup(t)
		if p.Name() == "" {
			t.Error("the provider has no name")
		}
		if got, err := drain(t, p, t.Context(), greeting); err != nil || got.Text == "" {
			t.Errorf("Stream() yields %+v, %v, want some text", got, err)
		}
	})
	t.Run("side by side", func(t *testing.T) {
		t.Parallel()
		p := setup(t)
		want, err := drain(t, p, t.Context(), greeting)
		if err != nil {
			t.Fatalf("Stream() = %v", err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if got, err := drain(t, p, t.Context(), greeting); err != nil || got.Text != want.Text {
					t.Errorf("Stream() yields %q, %v, want %q", got.Text, err, want.Text)
				}
			})
		}
		all.Wait()
	})
	t.Run("breaks", func(t *testing.T) {
		t.Parallel()
		for _, err := range setup(t).Stream(t.Context(), greeting) {
			if err != nil {
				t.Errorf("Stream() = %v", err)
			}
			break
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := drain(t, setup(t), ctx, greeting); !errors.Is(err, context.Canceled) {
			t.Errorf("Stream() = %v, want context.Canceled", err)
		}
	})
}
