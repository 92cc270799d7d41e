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
)

// holdEvery is which batches end their response only when all outputs are there,
// and holding how long after that. It is the rest of what the model says: nobody
// may ask for the next response before.
const (
	holdEvery = 4
	holding   = 20 * time.Millisecond
)

// callPrefix begins the ids of the function calls, which are numbered from 1.
const callPrefix = "call_"

// batches is a model that uses some tools at once, again and again:
//
//	upstream  response.created, for each call conversation.item.added and response.output_item.done, response.done
//	bridge    conversation.item.create with the output of each call, one response.create
//	upstream  response.created, response.done, and at once the next batch
//
// It holds the other side to the rules: each call has one output, which is that of
// its own tool, and each batch one response.create, behind its response.done and
// its last output. It is used by the session's goroutine, but for answered and
// finished.
type batches struct {
	of   stage
	uses []use // of which the calls are in turn
	size int   // calls of a batch
	// fail is told what breaks a rule. Nothing is asked for after that.
	fail func(error)
	took histogram // from the first event of a batch to its response.create

	batch     uint64 // from 1
	began     time.Time
	response  string // the response of the batch
	responses int    // made so far
	made      []any  // its function calls
	asked     uint64 // calls until now
	missing   map[string]string
	speaking  bool // response.done is not sent yet
	last      bool // there will be no other batch
	failed    bool

	// answered is how many calls have their output.
	answered atomic.Uint64
	// finished is closed when the last batch is answered.
	finished chan struct{}
}

// stage is what the model speaks through; *simulator.Session is one.
type stage interface {
	Emit(event map[string]any)
	AddCall(id, callID, name string)
	Forget()
}

func newBatches(of stage, uses []use, size int, fail func(error)) *batches {
	return &batches{of: of, uses: uses, size: size, fail: fail, missing: map[string]string{}, finished: make(chan struct{})}
}

// next begins a batch.
func (b *batches) next() {
	// The batches before are answered; a long run must not grow with them.
	b.of.Forget()
	b.batch++
	b.began = time.Now()
	b.newResponse()
	b.speaking = true
	b.respond(realtime.TypeResponseCreated, realtime.ResponseInProgress)
	for i := range b.size {
		u := b.useOf(i)
		b.asked++
		id, callID := fmt.Sprintf("fc_%d", b.asked), callPrefix+strconv.FormatUint(b.asked, 10)
		b.missing[callID] = u.name
		call := object{
			"id": id, "object": "realtime.item", "type": realtime.ItemFunctionCall, "status": realtime.ResponseCompleted,
			"call_id": callID, "name": u.name, "arguments": text(u.arguments(markOf(callID))),
		}
		b.made = append(b.made, call)
		b.of.AddCall(id, callID, u.name)
		b.of.Emit(object{"type": realtime.TypeOutputItemDone, "response_id": b.response, "output_index": i, "item": call})
	}
	if b.batch%holdEvery != 0 {
		b.done()
	}
}

// useOf is what call i of a batch is of, from 0.
func (b *batches) useOf(i int) use { return b.uses[i%len(b.uses)] }

// held reports whether the response of the batch is to be ended after the time of
// holding, by done.
func (b *batches) held() bool { return b.speaking && len(b.missing) == 0 && !b.failed }

// done ends the response of the batch.
func (b *batches) done() {
	b.speaking = false
	b.respond(realtime.TypeResponseDone, realtime.ResponseCompleted)
}

func (b *batches) newResponse() {
	b.responses++
	b.response, b.made = fmt.Sprintf("resp_%d", b.responses), []any{}
}

func (b *batches) respond(kind, status string) {
	b.of.Emit(object{"type": kind, "response": object{
		"object": "realtime.response", "id": b.response, "status": status, "output": b.made,
	}})
}

// output takes the output of a call.
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

// was reports whether there was a call with this id.
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
	case b.speaking:
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

// broken tells of a broken rule, the first one.
func (b *batches) broken(format string, args ...any) {
	if !b.failed {
		b.failed = true
		b.fail(fmt.Errorf(format, args...))
	}
}

// overdue says what is still missing of the batch.
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

// errNoTools says that there is nothing to use.
var errNoTools = errors.New("the bridge offers none of the tools that are measured")
