package charts

import (
	"testing"

	"voicebridge/toolkit"
)

// A registry is built for each call of a server whose MCP tools change.
func BenchmarkRegistry(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		r := toolkit.NewRegistry()
		for _, tool := range Tools() {
			if err := r.Add(toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp}); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkCall(b *testing.B) {
	router := newRouter(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, result := run(b, router, "create_bar_chart", full["create_bar_chart"]); result.Failed() {
			b.Fatal(result.Error)
		}
	}
}
