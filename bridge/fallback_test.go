package bridge

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/bridge/internal/leg"
	"voicebridge/bridge/internal/session"
	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
)

// stub is an upstream that fails as it is told to.
type stub struct {
	name   string
	fail   error
	hang   bool // it answers only when it is told to stop
	asks   bool // it makes a session before it fails
	dialed int
}

func (s *stub) Name() string                         { return s.name }
func (s *stub) HangUp(context.Context, string) error { return nil }
func (s *stub) Dial(ctx context.Context, d Dial) (UpstreamLeg, error) {
	s.dialed++
	if s.hang {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if d.Handlers.State != nil { // as a connection that is closed in vain does
		d.Handlers.Message([]byte(s.name))
		d.Handlers.State(media.StateClosed)
	}
	if s.fail == nil || s.asks {
		if err := d.Created("id_" + s.name); err != nil {
			return nil, err
		}
	}
	return nil, s.fail
}

// TestFallback dials a chain of upstreams again and again: the first one that answers has the session, and one that has
// failed is left alone for a minute.
func TestFallback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second, third := &stub{name: "first", hang: true}, &stub{name: "second", fail: errors.New("401")}, &stub{name: "third"}
		cfg := Config{
			Upstreams: []Route{{Upstream: first, Model: "m1"}, {Upstream: second}, {Upstream: third, Model: "m3", Voice: "v3"}},
			Settings:  Settings{Session: SessionConfig{Model: "m", Voice: "v"}}, Logger: slog.New(slog.DiscardHandler),
		}
		var h health
		var used, told []string
		dial := func(from, refused string) error {
			route, _ := cfg.route(from)
			ctx, cancel := context.WithTimeoutCause(t.Context(), leg.DialTimeout, leg.ErrDialTimeout)
			defer cancel()
			_, err := cfg.chain(route, &h).Dial(ctx, Dial{
				Refused: refused,
				Handlers: media.Handlers{
					Message: func(data []byte) { told = append(told, string(data)) },
					State:   func(media.State) { told = append(told, "closed") },
				},
				Created: func(id string) error { used = append(used, id); return nil },
				Use: func(u Upstream, r session.Route) {
					testkit.Equal(t, u.Name(), r.Name, "is called")
					used = append(used, strings.Join([]string{r.Name, r.Model, r.Voice}, " "))
				},
			})
			return err
		}
		for _, step := range []struct {
			name, from, refused string
			before              func()
			want                []string
			fails               bool
		}{
			{"the third answers", "", "", nil, []string{"first m1 v", "second m v", "third m3 v3", "id_third"}, false},
			{"the others are left alone", "", "", nil, []string{"third m3 v3", "id_third"}, false},
			{"also by name", "second", "", nil, []string{"third m3 v3", "id_third"}, false},
			{"after a minute they are tried", "second", "", func() { time.Sleep(restFor); second.fail = nil }, []string{"second m v", "id_second"}, false},
			{"who has refused is left alone", "second", "second", nil, []string{"third m3 v3", "id_third"}, false},
			{"all have failed", "third", "third", func() { first.hang, first.fail, third.fail = false, errors.New("500"), errors.New("500") }, []string{"first m1 v"}, true},
			{"then all are tried", "third", "", nil, []string{"third m3 v3", "first m1 v", "second m v", "id_second"}, false},
			{"what failed with a session is not tried elsewhere", "third", "", func() { time.Sleep(2 * restFor); third.asks = true }, []string{"third m3 v3", "id_third"}, true},
		} {
			if step.before != nil {
				step.before()
			}
			used, told = nil, nil
			err := dial(step.from, step.refused)
			if diff := cmp.Diff(step.want, used); diff != "" || (err != nil) != step.fails {
				t.Errorf("%s: %v (-want +got):\n%s", step.name, err, diff)
			}
			var heard []string // nothing of those that have failed
			if !step.fails {
				heard = []string{strings.TrimPrefix(used[len(used)-1], "id_"), "closed"}
			}
			testkit.Equal(t, told, heard, "%s: what was handed on", step.name)
		}
	})
}

// TestKnown asks of which upstreams a call need not wait for the answer: those that were reached in the last five
// minutes, and have not failed since.
func TestKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := &stub{name: "first"}, &stub{name: "second"}
		cfg := Config{Upstreams: []Route{{Upstream: first}, {Upstream: second}}, Logger: slog.New(slog.DiscardHandler)}
		var h health
		dial := func(refused string) {
			dial := Dial{Refused: refused, Created: func(string) error { return nil }, Use: func(Upstream, session.Route) {}}
			_, _ = cfg.chain(cfg.Upstreams[0], &h).Dial(t.Context(), dial)
		}
		for _, step := range []struct {
			name          string
			before        func()
			first, second bool
		}{
			{"none was reached", func() {}, false, false},
			{"one was", func() { dial("") }, true, false},
			{"almost five minutes ago", func() { time.Sleep(knownFor - time.Second) }, true, false},
			{"five minutes ago", func() { time.Sleep(time.Second) }, false, false},
			{"it fails, so the other one is asked first", func() { dial(""); first.fail = errors.New("500"); dial("") }, true, true},
			{"both fail", func() { second.fail = errors.New("500"); dial("") }, false, false},
			{"both are well again", func() { first.fail, second.fail = nil, nil; dial("") }, true, true},
			{"it refuses in a call, and the other one is asked although it rests", func() { dial("first") }, true, true},
			{"a call ended because of it", func() { h.doubt("second") }, false, false},
		} {
			step.before()
			if a, b := cfg.chain(cfg.Upstreams[0], &h).known(), cfg.chain(cfg.Upstreams[1], &h).known(); a != step.first || b != step.second {
				t.Errorf("%s: %t, %t", step.name, a, b)
			}
		}
	})
}
