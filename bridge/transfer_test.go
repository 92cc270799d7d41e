package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
)

// switches is a recording that notes when it goes on and pauses.
type switches struct {
	keepsNothing

	note func(string)
}

func (s switches) Run(on bool) { s.note(fmt.Sprint("recorded ", on)) }

// transferring is a call of a telephone whose caller can be connected with somebody.
type transferring struct {
	*bench

	phone *bridge.Phone
	asked chan string // numbers
	reply chan error
	notes chan string
}

const putThrough = "I put you through to the workshop, one moment."

func newTransferring(t *testing.T, p pair, desk string) *transferring {
	t.Helper()
	reply := simulator.Reply{
		Say: putThrough, Calls: []simulator.Call{{Name: "transfer_call", Arguments: `{"to":"workshop"}`}}, Then: "They are connected.", Failed: "The workshop is busy.",
		Else: &simulator.Reply{Say: "I cannot connect you."},
	}
	silent, twice, odd := reply, reply, reply
	silent.Say = ""
	twice.Calls = append(twice.Calls, twice.Calls...)
	odd.Calls = []simulator.Call{{Name: "transfer_call", Arguments: `{"to":"+15551234567"}`}}
	rules := []simulator.Rule{
		{Match: regexp.MustCompile("silently"), Reply: silent}, {Match: regexp.MustCompile("twice"), Reply: twice}, {Match: regexp.MustCompile("elsewhere"), Reply: odd},
		{Match: regexp.MustCompile("Connect"), Reply: reply},
	}
	b := &transferring{asked: make(chan string, 8), reply: make(chan error), notes: make(chan string, 64)}
	b.bench = newBench(t, sqlite(t), benchConfig{
		over: p, simulator: simulator.Config{Script: &simulator.Script{Otherwise: simulator.Reply{Say: "Yes?"}, Typed: rules}},
		bridge: bridge.Config{Record: func(string, string, func()) (bridge.Recording, error) {
			return switches{note: func(s string) { b.notes <- s }}, nil
		}},
	})
	b.makes(desk)
	b.phone = &bridge.Phone{
		Line: "desk", Caller: "+493011111111", Called: "+493099999999", Dials: func(number string) bool { return strings.HasPrefix(number, "+49") },
		Transfer: func(ctx context.Context, number string) error {
			b.asked <- number
			select {
			case err := <-b.reply:
				return err
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
	}
	return b
}

const workshop = `{"id":"desk","name":"Desk","transfers":{"workshop":{"number":"+493055555555"},"abroad":{"number":"+15551234567"}}}`

// call begins a recorded call.
func (b *transferring) call() *browser {
	b.t.Helper()
	c := b.dial(bridge.Start{Assistant: chosen("desk"), Phone: b.phone, Record: true})
	c.next("bridge.ready")
	testkit.Equal(b.t, testkit.Take(b.t, "the recording", b.notes), "recorded true", "at first")
	return c
}

func (b *transferring) recorded(want string) {
	b.t.Helper()
	testkit.Equal(b.t, testkit.Take(b.t, "the recording", b.notes), want, "the recording")
}

// TestTransfer has the model connect the caller with somebody on each transport: nobody answers at first, and the call goes
// on; then somebody does, and the call ends.
func TestTransfer(t *testing.T) {
	t.Parallel()
	all(t, func(t *testing.T, p pair) {
		t.Helper()
		b := newTransferring(t, p, workshop)
		c := b.call()
		asked := func() {
			t.Helper()
			c.say("Connect me")
			testkit.Equal(t, testkit.Take(t, "the transfer", b.asked), "+493055555555", "number")
			b.recorded("recorded false") // before the carrier was asked
		}
		asked()
		if p.upstream != duplex { // whose own words are not in the thread
			said := b.messages(c.key())
			if m := said[len(said)-1]; !strings.HasPrefix(m.Text(), putThrough) || m.Metadata.Status != "completed" {
				t.Errorf("said before: %+v", m)
			}
		}
		c.say("Hello?") // nobody answers that now
		time.Sleep(20 * time.Second)
		b.reply <- errors.New("busy")
		b.recorded("recorded true")
		c.wait("the answer to that", func(ev realtime.Event) bool {
			want := "The workshop is busy."
			if p.upstream == duplex { // which answers what was typed last
				want = "Yes?"
			}
			return ev.Type == realtime.TypeResponseDone && strings.Contains(string(ev.Raw), want)
		})
		asked()
		b.reply <- nil
		testkit.Equal(t, c.ended(), bridge.EndTransferred, "ended because")
		testkit.Eventually(t, "the end", func() bool { live, _ := b.calls.Call(c.key()); return live == "" })
		if p.upstream == duplex { // the text turn saves its tools, which is none here
			return
		}
		calls, err := b.store.Records.ToolCalls(b.ctx, c.key())
		must(t, err)
		var got []string
		for _, call := range calls {
			if call.Name == "transfer_call" {
				got = append(got, fmt.Sprint(call.Status, " ", call.Input, " ", call.Output, call.Error))
			}
		}
		slices.Sort(got)
		want := []string{
			`done {"to":"workshop"} {"status":"transferred","to":"workshop"}`, `failed {"to":"workshop"} Nobody was reached (busy), and the user is still there.`,
		}
		testkit.Equal(t, got, want, "tool calls")
	})
}

// TestTransferOdd has transfers that are none, and those that end otherwise.
func TestTransferOdd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, b *transferring, c *browser){
		"words of the assistant's": func(t *testing.T, b *transferring, c *browser) {
			t.Helper()
			c.say("Connect me silently")
			c.wait("what is said", func(ev realtime.Event) bool {
				return ev.Type == realtime.TypeResponseDone && strings.Contains(string(ev.Raw), "Stay with me.")
			})
			testkit.Take(t, "the transfer", b.asked)
			b.reply <- nil
			testkit.Equal(t, c.ended(), bridge.EndTransferred, "ended because")
		},
		"who is not in the list": func(t *testing.T, b *transferring, c *browser) {
			t.Helper()
			c.say("Connect me elsewhere")
			c.wait("a failure", func(ev realtime.Event) bool { return ev.Type == "bridge.tool.failed" })
			c.wait("the answer", func(ev realtime.Event) bool {
				return ev.Type == realtime.TypeResponseDone && strings.Contains(string(ev.Raw), "The workshop is busy.")
			})
			b.hangUp(c)
		},
		"two at once": func(t *testing.T, b *transferring, c *browser) {
			t.Helper()
			c.say("Connect me twice")
			c.wait("a failure", func(ev realtime.Event) bool {
				return ev.Type == "bridge.tool.failed" && strings.Contains(string(ev.Raw), "is being transferred")
			})
			testkit.Take(t, "the transfer", b.asked)
			b.reply <- nil
			testkit.Equal(t, c.ended(), bridge.EndTransferred, "ended because")
			testkit.Equal(t, len(b.asked), 0, "another transfer")
		},
		"a caller who hangs up meanwhile": func(t *testing.T, b *transferring, c *browser) {
			t.Helper()
			c.say("Connect me")
			testkit.Take(t, "the transfer", b.asked)
			must(t, b.calls.End(b.ctx, owner, c.CallID, bridge.EndCallerHangup))
			testkit.Equal(t, c.ended(), bridge.EndCallerHangup, "ended because")
		},
		"one that is to be cancelled": func(t *testing.T, b *transferring, c *browser) {
			t.Helper()
			c.say("Connect me")
			testkit.Take(t, "the transfer", b.asked)
			run := c.next("bridge.tool.started")
			var e struct {
				ID string `json:"tool_call_id"`
			}
			c.decode(run, &e)
			c.send(`{"type":"bridge.tool.cancel","tool_call_id":%q}`, e.ID)
			c.wait("the refusal", func(ev realtime.Event) bool { return ev.Type == realtime.TypeError })
			b.reply <- nil
			testkit.Equal(t, c.ended(), bridge.EndTransferred, "ended because")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newTransferring(t, pair{}, strings.Replace(workshop, `"+493055555555"`, `"+493055555555","says":"Stay with me."`, 1))
				test(t, b, b.call())
			})
		})
	}
}

// TestTransferIsOff has calls in which the model has no such tool.
func TestTransferIsOff(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b *transferring, start *bridge.Start){
		"not by telephone":        func(_ *transferring, start *bridge.Start) { start.Phone = nil },
		"a line without account":  func(b *transferring, _ *bridge.Start) { b.phone.Transfer = nil },
		"no number to be dialled": func(b *transferring, _ *bridge.Start) { b.phone.Dials = func(string) bool { return false } },
		"another owner's assistant": func(_ *transferring, start *bridge.Start) {
			start.Owner, start.Assistant = "eve", chosen("shared")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newTransferring(t, pair{}, workshop)
				b.makes(strings.Replace(workshop, `"id":"desk"`, `"id":"shared","shared":true`, 1))
				start := bridge.Start{Assistant: chosen("desk"), Phone: b.phone}
				change(b, &start)
				c := b.dial(start)
				c.next("bridge.ready")
				c.say("Connect me")
				c.wait("the answer", func(ev realtime.Event) bool {
					return ev.Type == realtime.TypeResponseDone && strings.Contains(string(ev.Raw), "I cannot connect you.")
				})
				must(t, b.calls.End(b.ctx, start.Owner+map[bool]string{true: owner}[start.Owner == ""], c.CallID, bridge.EndHangup))
				c.ended()
			})
		})
	}
}
