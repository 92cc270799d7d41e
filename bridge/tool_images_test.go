package bridge_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"

	"voicebridge/assistant"
	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/pictures"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// camera is an MCP server's tool whose result names an image of the thread, and one that
// was deleted.
type camera struct {
	store   *persistence.Store
	picture []byte
}

func (camera) Definition() toolkit.Definition {
	return toolkit.Definition{Name: "s__look", Description: "Looks.", Parameters: []byte(`{"type":"object"}`)}
}

func (c camera) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		picture, err := pictures.NewImage(c.picture)
		if err == nil {
			picture, err = c.store.Pictures.Save(ctx, thread.Key{Owner: call.Owner, Thread: call.ThreadID}, picture, 0)
		}
		output := fmt.Sprintf(`{"content":[{"type":"image","mimeType":"image/png","image_id":%q,"url":"x"},{"type":"image","mimeType":"image/png","image_id":"gone","url":"x"}]}`, picture.ID)
		yield(toolkit.Chunk{Result: &toolkit.Result{Output: []byte(output), Model: "[image, image/png]"}}, err)
	}
}

// TestImageOfATool shows the model in a call the image that a tool returns, together with
// its output.
func TestImageOfATool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testImageOfATool)
}

func testImageOfATool(t *testing.T) {
	t.Helper()
	store := sqlite(t)
	b := newBench(t, store, benchConfig{bridge: bridge.Config{Tools: func(context.Context, string, assistant.Assistant) (*toolkit.Registry, error) {
		r := toolkit.NewRegistry()
		return r, r.Add(toolkit.Entry{Tool: camera{store, drawing(t)}, Executor: toolkit.ExecutorMCP, Server: "s"})
	}}})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	c.say("Use a tool, please.")
	c.next("bridge.tool.done")
	c.played(2)
	b.hangUp(c)
	testkit.Equal(t, shown(t, b.session(1)), []string{"Use a tool, please.", "(Images that s__look returned) [image]"}, "the model was shown")
	testkit.Equal(t, len(b.messages(c.key())), 3, "the thread has messages: %s", b.script(c.key()))
}
