package openai

import (
	"net/http"
	"strconv"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// kindOf classifies the errors of https://platform.openai.com/docs/guides/error-codes and of
// compatible servers.
func kindOf(problem wire.Problem) llm.ErrorKind {
	if problem.Says("request too large") { // larger than the limit per minute: waiting does not help
		return llm.KindTooLong
	}
	if problem.Says("content management policy", "content exists risk", "may contain inappropriate content", "input was flagged") {
		return llm.KindRefused // Azure through gateways, DeepSeek, Alibaba, OpenRouter, whose status is 403
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
		case "invalid_prompt", "content_filter", "content_policy_violation", "image_content_policy_violation": // OpenAI, Azure, gateways
			return llm.KindRefused
		case "server_error", "internal_server_error", "overloaded_error", "service_unavailable", "engine_overloaded":
			return llm.KindOverloaded
		case "invalid_request_error", "model_not_found":
			if problem.Status == 0 && !tooLarge(problem, 0) {
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
	if tooLarge(problem, status) {
		return llm.KindTooLong
	}
	return wire.KindOfStatus(status)
}

// tooLarge recognises a conversation that is too long by the text: vLLM, LM Studio, which says it in the stream,
// llama.cpp, xAI and gateways have no code for it.
func tooLarge(problem wire.Problem, status int) bool {
	return (status == 0 || status == http.StatusBadRequest || status == http.StatusUnprocessableEntity) &&
		problem.Says("context length", "context window", "maximum context", "context size", "too many tokens", "prompt is too long", "prompt length")
}
