package toolkit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"voicebridge/toolkit"
)

// greet is a tool: what the model is told about it, and what answers its call.
type greet struct{}

func (greet) Definition() toolkit.Definition {
	return toolkit.Definition{
		Name:        "greet",
		Description: "Greets somebody by name.",
		Parameters:  json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`),
	}
}

func (greet) Call(_ context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		var arguments struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal([]byte(call.Arguments), &arguments); err != nil {
			yield(toolkit.Chunk{}, fmt.Errorf("read arguments: %w", err))
			return
		}
		if !yield(toolkit.Chunk{Message: "Looking up the name", Percent: 50}, nil) {
			return
		}
		output, err := json.Marshal("Hello, " + arguments.Name)
		yield(toolkit.Chunk{Result: &toolkit.Result{Output: output}}, err)
	}
}

// A router checks the arguments of a model's call and runs the tool with that name.
// Whatever goes wrong becomes a result that the model can read.
func Example() {
	registry := toolkit.NewRegistry()
	if err := registry.Add(toolkit.Entry{Tool: greet{}, Executor: toolkit.ExecutorApp}); err != nil {
		panic(err)
	}
	router := toolkit.NewRouter(registry, toolkit.RouterConfig{})
	for _, arguments := range []string{`{"name":"Ada"}`, `{}`} {
		call := toolkit.Call{ID: "call_1", Name: "greet", Arguments: arguments}
		result := router.Call(context.Background(), call, func(progress toolkit.Chunk) { fmt.Println(progress.Message) })
		fmt.Println("failed:", result.Failed())
	}
	// Output:
	// Looking up the name
	// failed: false
	// failed: true
}
