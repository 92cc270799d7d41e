package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"voicebridge/realtime"
	"voicebridge/toolkit"
)

// batches is a model that repeatedly uses some tools at once:
//
//	upstream  response.created, for each call conversation.item.added and response.output_item.done, response.done
//	bridge    conversation.item.create with the output of each call, one response.create
//	upstream  response.created, response.done, and at once the next batch
//
// Each call must get one output, from its own tool, and each batch one response.create after its last
// output: otherwise the figures would mean nothing. Only the session's goroutine uses it, except for
// answered and finished.
type batches struct {
	session upstreamSession
	uses    []use       // the tools that calls use in turn
	size    int         // calls per batch
	fail    func(error) // called when the bridge did not do that
	took    histogram   // from the first event of a batch to its response.create

	batch     uint64 // from 1
	began     time.Time
	responses int               // made so far
	asked     uint64            // calls made so far
	missing   map[string]string // the tools of the calls without an output, by call id
	last      bool              // this batch is the last one

	// answered counts the calls that have their output.
	answered atomic.Uint64
	// finished is closed when the last batch is answered.
	finished chan struct{}
}

// upstreamSession is the upstream's end of a call, through which the model sends its events;
// *simulator.Session is one.
type upstreamSession interface {
	Emit(event map[string]any)
	AddCall(id, callID, name string)
	Forget()
}

func newBatches(session upstreamSession, uses []use, size int, fail func(error)) *batches {
	return &batches{session: session, uses: uses, size: size, fail: fail, missing: map[string]string{}, finished: make(chan struct{})}
}

// next begins a batch.
func (b *batches) next() {
	// The earlier batches are answered; a long run must not grow with them.
	b.session.Forget()
	b.batch++
	b.began = time.Now()
	b.respond(func(response string) (calls []any) {
		for i := range b.size {
			u := b.useOf(i)
			b.asked++
			id, callID := fmt.Sprintf("fc_%d", b.asked), fmt.Sprintf("call_%d", b.asked)
			b.missing[callID] = u.name
			call := object{
				"id": id, "object": "realtime.item", "type": realtime.ItemFunctionCall, "status": realtime.ResponseCompleted,
				"call_id": callID, "name": u.name, "arguments": string(toolkit.Encode(u.arguments(markOf(callID)))),
			}
			calls = append(calls, call)
			b.session.AddCall(id, callID, u.name)
			b.session.Emit(object{"type": realtime.TypeOutputItemDone, "response_id": response, "output_index": i, "item": call})
		}
		return calls
	})
}

// useOf returns the tool that call i of a batch uses, from 0.
func (b *batches) useOf(i int) use { return b.uses[i%len(b.uses)] }

// respond makes a response with the output that generate sends.
func (b *batches) respond(generate func(response string) []any) {
	b.responses++
	id := fmt.Sprintf("resp_%d", b.responses)
	emit := func(kind, status string, output []any) {
		b.session.Emit(object{"type": kind, "response": object{"object": "realtime.response", "id": id, "status": status, "output": output}})
	}
	emit(realtime.TypeResponseCreated, realtime.ResponseInProgress, []any{})
	emit(realtime.TypeResponseDone, realtime.ResponseCompleted, generate(id))
}

// output takes the output of a function call.
func (b *batches) output(callID, output string) {
	name, open := b.missing[callID]
	switch {
	case !open:
		b.fail(fmt.Errorf("there is an output for the tool call %.40q, which nobody made or which has one", callID))
	case !answers(output, markOf(callID)):
		b.fail(fmt.Errorf("the tool call %s of %s did not succeed: %.300s", callID, name, output))
	default:
		delete(b.missing, callID)
		b.answered.Add(1)
	}
}

// create takes a response.create: it makes the response, and the next batch.
func (b *batches) create() {
	if len(b.missing) > 0 || b.over() {
		b.fail(fmt.Errorf("there is a response.create while batch %d lacks %d of %d outputs: it comes too early, or twice", b.batch, len(b.missing), b.size))
		return
	}
	b.took.record(time.Since(b.began))
	b.respond(func(string) []any { return []any{} })
	if b.last {
		close(b.finished)
		return
	}
	b.next()
}

func (b *batches) over() bool {
	select {
	case <-b.finished:
		return true
	default:
		return false
	}
}

// overdue says what the batch still lacks.
func (b *batches) overdue() error {
	if len(b.missing) == 0 {
		return fmt.Errorf("batch %d has all its outputs and no response.create", b.batch)
	}
	var calls []string
	for id, name := range b.missing {
		calls = append(calls, id+" of "+name)
	}
	slices.Sort(calls)
	return fmt.Errorf("batch %d has no output of %s", b.batch, strings.Join(calls, ", "))
}

// errNoTools means that there are no tools to measure.
var errNoTools = errors.New("the bridge offers none of the tools that are measured")
