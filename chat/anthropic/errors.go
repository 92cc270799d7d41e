package anthropic

import (
	"voicebridge/chat"
	"voicebridge/chat/internal/wire"
)

// kindOf sorts the errors of https://platform.claude.com/docs/en/api/errors. Two
// of them have no type of their own and are known by their words.
func kindOf(problem wire.Problem) chat.ErrorKind {
	if problem.Says("credit balance is too low", "api usage limits") {
		return chat.KindQuota
	}
	switch problem.Type {
	case "authentication_error", "permission_error":
		return chat.KindAuth
	case "billing_error":
		return chat.KindQuota
	case "rate_limit_error":
		return chat.KindRate
	case "request_too_large":
		return chat.KindTooLong
	case "overloaded_error", "api_error":
		return chat.KindOverloaded
	case "timeout_error":
		return chat.KindTimeout
	case "not_found_error":
		return chat.KindBadRequest
	case "invalid_request_error":
		if problem.Says("prompt is too long", "context limit", "context window") {
			return chat.KindTooLong
		}
		return chat.KindBadRequest
	}
	return wire.KindOfStatus(problem.Status)
}
