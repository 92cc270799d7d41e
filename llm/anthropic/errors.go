package anthropic

import (
	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// kindOf classifies the errors of https://platform.claude.com/docs/en/api/errors.
func kindOf(problem wire.Problem) llm.ErrorKind {
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
	case "not_found_error", "invalid_request_error":
		return llm.KindBadRequest
	}
	return wire.KindOfStatus(problem.Status)
}
