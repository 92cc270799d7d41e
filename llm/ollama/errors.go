package ollama

import (
	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// kindOf classifies Ollama's errors, which are a status and a sentence.
func kindOf(problem wire.Problem) llm.ErrorKind {
	switch {
	case problem.Says("context length", "context size", "prompt is too long", "prompt too long"):
		return llm.KindTooLong
	case problem.Says("server busy", "maximum pending requests", "overloaded", "requires more system memory", "out of memory", "llama runner", "model runner"):
		return llm.KindOverloaded
	case problem.Says("usage limit"):
		return llm.KindQuota
	}
	return wire.KindOfStatus(problem.Status)
}
