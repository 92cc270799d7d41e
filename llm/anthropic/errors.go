package anthropic

import (
	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// kindOf classifies the errors of https://platform.claude.com/docs/en/api/errors. Two of them have
// no type of their own and are recognised by their text.
func kindOf(problem wire.Problem) llm.ErrorKind {
	if problem.Says("credit balance is too low", "api usage limits") {
		return llm.KindQuota
	}
	switch problem.Type {
	case "authentication_error", "permission_error":
		return llm.KindAuth
	case "billing_error":
		return llm.KindQuota
	case "rate_limit_error":
		return llm.KindRate
	case "request_too_large":
		return llm.KindTooLong
	case "overloaded_error", "api_error":
		return llm.KindOverloaded
	case "timeout_error":
		return llm.KindTimeout
	case "not_found_error":
		return llm.KindBadRequest
	case "invalid_request_error":
		if problem.Says("prompt is too long", "context limit", "context window") {
			return llm.KindTooLong
		}
		return llm.KindBadRequest
	}
	return wire.KindOfStatus(problem.Status)
}
