package llm_test

import (
	"context"
	"fmt"

	"voicebridge/llm"
	"voicebridge/llm/simulator"
)

// An answer comes in pieces; the last one says why it ends. The simulator needs no key;
// openai.New, anthropic.New, google.New or ollama.New can take its place.
func Example() {
	var model llm.Provider = simulator.New(simulator.Config{})
	request := llm.Request{
		Model:    simulator.Model,
		System:   "Be brief.",
		Messages: []llm.Message{{Role: llm.RoleUser, Content: "Hello"}},
	}
	for delta, err := range model.Stream(context.Background(), request) {
		if err != nil {
			panic(err)
		}
		fmt.Print(delta.Text)
		if delta.Stop != "" {
			fmt.Println()
			fmt.Println("ended:", delta.Stop)
		}
	}
	// Output:
	// Hello, I am the simulator. Ask me for a chart, a theme, a tool, or a long story.
	// ended: stop
}

// A model asks for a function, and gets its result in the next request.
func Example_tools() {
	model := simulator.New(simulator.Config{})
	request := llm.Request{
		Messages: []llm.Message{{Role: llm.RoleUser, Content: `call weather {"city":"Oslo"}`}},
		Tools:    []llm.Tool{{Name: "weather", Parameters: []byte(`{"type":"object","properties":{"city":{"type":"string"}}}`)}},
	}
	for {
		answer := llm.Message{Role: llm.RoleAssistant}
		for delta, err := range model.Stream(context.Background(), request) {
			if err != nil {
				panic(err)
			}
			answer.Content += delta.Text
			if delta.ToolCall != nil {
				answer.ToolCalls = append(answer.ToolCalls, *delta.ToolCall)
			}
		}
		if len(answer.ToolCalls) == 0 {
			fmt.Println(answer.Content)
			return
		}
		request.Messages = append(request.Messages, answer)
		for _, call := range answer.ToolCalls {
			fmt.Println(call.Name, call.Arguments)
			request.Messages = append(request.Messages, llm.Message{
				Role: llm.RoleTool, ToolCallID: call.ID, ToolName: call.Name, Content: `{"celsius":-3}`,
			})
		}
	}
	// Output:
	// weather {"city":"Oslo"}
	// The tool has answered. You can read its result above.
}
