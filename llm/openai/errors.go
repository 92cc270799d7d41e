package openai

import (
	"strconv"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// kindOf classifies the errors of https://platform.openai.com/docs/guides/error-codes and of
// compatible servers.
func kindOf(problem wire.Problem) llm.ErrorKind {
	if problem.Param == "input_tokens" { // vLLM
		return llm.KindTooLong
	}
	for _, code := range []string{problem.Code, problem.Type} {
		switch code {
		case "invalid_api_key", "account_deactivated", "authentication_error", "permission_error":
			return llm.KindAuth
		case "insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_balance":
			return llm.KindQuota
		case "rate_limit_exceeded", "rate_limit_error", "requests", "tokens":
			return llm.KindRate
		case "context_length_exceeded", "exceed_context_size_error":
			return llm.KindTooLong
		// OpenAI, Azure, gateways, Alibaba
		case "invalid_prompt", "content_filter", "content_policy_violation", "image_content_policy_violation",
			"data_inspection_failed":
			return llm.KindRefused
		case "server_error", "internal_server_error", "overloaded_error", "service_unavailable", "engine_overloaded":
			return llm.KindOverloaded
		case "invalid_request_error", "model_not_found":
			if problem.Status == 0 {
				return llm.KindBadRequest
			}
		}
		if problem.Status == 0 && strings.Contains(code, "image") { // there are a dozen, as invalid_image_format
			return llm.KindBadRequest
		}
	}
	status := problem.Status
	if status == 0 { // gateways report their upstream's status as the code
		if code, err := strconv.Atoi(problem.Code); err == nil {
			status = code
		}
	}
	return wire.KindOfStatus(status)
}
