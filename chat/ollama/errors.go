package ollama

import (
	"voicebridge/chat"
	"voicebridge/chat/internal/wire"
)

// kindOf sorts Ollama's errors, which are a status and a sentence.
func kindOf(problem wire.Problem) chat.ErrorKind {
	switch {
	case problem.Says("context length", "context size", "prompt is too long", "prompt too long"):
		return chat.KindTooLong
	case problem.Says("server busy", "maximum pending requests", "overloaded", "requires more system memory", "out of memory", "llama runner", "model runner"):
		return chat.KindOverloaded
	case problem.Says("usage limit"):
		return chat.KindQuota
	}
	return wire.KindOfStatus(problem.Status)
}
