package bench

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"voicebridge/realtime"
	"voicebridge/toolkit"
)

// holdEvery selects the batches that end their response only after all outputs are there, and
// holding is how long after: the response is still in progress, and nobody may ask for the next one
// before it ends.
const (
	holdEvery = 4
	holding   = 20 * time.Millisecond
)

// callPrefix begins the ids of the function calls, which are numbered from 1.
const callPrefix = "call_"

// batches is a model that repeatedly uses some tools at once:
//
//	upstream  response.created, for each call conversation.item.added and response.output_item.done, response.done
//	bridge    conversation.item.create with the output of each call, one response.create
//	upstream  response.created, response.done, and at once the next batch
//
// It checks the rules: each call gets one output, from its own tool, and each batch one
// response.create, after its response.done and its last output. Only the session's goroutine uses
// it, except for answered and finished.
type batches struct {
	session upstreamSession
	uses    []use // the tools that calls use in turn
	size    int   // calls per batch
	// fail is called with the first broken rule. Nothing is requested after that.
	fail func(error)
	took histogram // from the first event of a batch to its response.create

	batch      uint64 // from 1
	began      time.Time
	response   string // the response of the batch
	responses  int    // made so far
	made       []any  // its function calls
	asked      uint64 // calls made so far
	missing    map[string]string
	responding bool // response.done has not been sent yet
	last       bool // this batch is the last one
	failed     bool

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
	b.newResponse()
	b.responding = true
	b.respond(realtime.TypeResponseCreated, realtime.ResponseInProgress)
	for i := range b.size {
		u := b.useOf(i)
		b.asked++
		id, callID := fmt.Sprintf("fc_%d", b.asked), callPrefix+strconv.FormatUint(b.asked, 10)
		b.missing[callID] = u.name
		call := object{
			"id": id, "object": "realtime.item", "type": realtime.ItemFunctionCall, "status": realtime.ResponseCompleted,
			"call_id": callID, "name": u.name, "arguments": string(toolkit.Encode(u.arguments(markOf(callID)))),
		}
		b.made = append(b.made, call)
		b.session.AddCall(id, callID, u.name)
		b.session.Emit(object{"type": realtime.TypeOutputItemDone, "response_id": b.response, "output_index": i, "item": call})
	}
	if b.batch%holdEvery != 0 {
		b.done()
	}
}

// useOf returns the tool that call i of a batch uses, from 0.
func (b *batches) useOf(i int) use { return b.uses[i%len(b.uses)] }

// held reports whether done ends the response of the batch, after the holding time.
func (b *batches) held() bool { return b.responding && len(b.missing) == 0 && !b.failed }

// done ends the response of the batch.
func (b *batches) done() {
	b.responding = false
	b.respond(realtime.TypeResponseDone, realtime.ResponseCompleted)
}

func (b *batches) newResponse() {
	b.responses++
	b.response, b.made = fmt.Sprintf("resp_%d", b.responses), []any{}
}

func (b *batches) respond(kind, status string) {
	b.session.Emit(object{"type": kind, "response": object{
		"object": "realtime.response", "id": b.response, "status": status, "output": b.made,
	}})
}

// output takes the output of a function call.
func (b *batches) output(callID, output string) {
	name, waited := b.missing[callID]
	switch {
	case !waited && b.was(callID):
		b.broken("the tool call %s has a second output", callID)
	case !waited:
		b.broken("there is an output for the tool call %.40q, which nobody made", callID)
	case !answers(output, markOf(callID)):
		b.broken("the tool call %s of %s did not succeed: %.300s", callID, name, output)
	default:
		delete(b.missing, callID)
		b.answered.Add(1)
	}
}

// was reports whether there has been a call with this id.
func (b *batches) was(callID string) bool {
	digits, ours := strings.CutPrefix(callID, callPrefix)
	n, err := strconv.ParseUint(digits, 10, 64)
	return ours && err == nil && n >= 1 && n <= b.asked
}

// create takes a response.create: it makes the response, and the next batch.
func (b *batches) create() {
	switch {
	case b.over():
		b.broken("there is a response.create after the last batch was answered")
	case len(b.missing) > 0:
		b.broken("there is a response.create while batch %d has %d of %d outputs: it comes too early, or twice for the batch before",
			b.batch, b.size-len(b.missing), b.size)
	case b.responding:
		b.broken("there is a response.create before the response.done of batch %d", b.batch)
	}
	if b.failed {
		return
	}
	b.took.record(time.Since(b.began))
	b.newResponse()
	b.respond(realtime.TypeResponseCreated, realtime.ResponseInProgress)
	b.respond(realtime.TypeResponseDone, realtime.ResponseCompleted)
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

// broken reports the first broken rule.
func (b *batches) broken(format string, args ...any) {
	if !b.failed {
		b.failed = true
		b.fail(fmt.Errorf(format, args...))
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
