package google

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"google.golang.org/genai"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// failure returns the error for an answer that is not whole.
func (p *Provider) failure(ctx context.Context, x *wire.Exchange, err error) error {
	if _, refused := x.Problem(); !refused && ctx.Err() == nil {
		if e, ok := errors.AsType[genai.APIError](err); ok { // in the middle of the stream
			problem := wire.Problem{Message: e.Message, Type: e.Status}
			for _, detail := range e.Details {
				if raw, err := json.Marshal(detail); err == nil {
					problem.Details = append(problem.Details, raw)
				}
			}
			return p.failures.Problem(problem, nil)
		}
	}
	return p.failures.Of(ctx, x, err)
}

// kindOf sorts the errors of https://ai.google.dev/gemini-api/docs/troubleshooting
// by their status and details. A conversation that does not fit has no code of
// its own and is known by its words.
func kindOf(problem wire.Problem) llm.ErrorKind {
	for _, raw := range problem.Details {
		var detail struct {
			Reason     string `json:"reason"`
			Violations []struct {
				QuotaID string `json:"quotaId"`
			} `json:"violations"`
		}
		if json.Unmarshal(raw, &detail) != nil {
			continue
		}
		if strings.HasPrefix(detail.Reason, "API_KEY_") {
			return llm.KindAuth
		}
		for _, v := range detail.Violations {
			if strings.Contains(v.QuotaID, "PerDay") { // a moment of waiting does not help
				return llm.KindQuota
			}
		}
	}
	switch problem.Type {
	case "UNAUTHENTICATED", "PERMISSION_DENIED":
		return llm.KindAuth
	case "RESOURCE_EXHAUSTED":
		if problem.Says("credits are depleted", "spending cap") {
			return llm.KindQuota
		}
		return llm.KindRate
	case "UNAVAILABLE", "INTERNAL", "ABORTED":
		return llm.KindOverloaded
	case "DEADLINE_EXCEEDED":
		return llm.KindTimeout
	case "INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND", "OUT_OF_RANGE", "UNIMPLEMENTED":
		if problem.Says("token count", "exceeds the maximum number of tokens") {
			return llm.KindTooLong
		}
		return llm.KindBadRequest
	case string(genai.FinishReasonMalformedFunctionCall), string(genai.FinishReasonUnexpectedToolCall), string(genai.FinishReasonTooManyToolCalls):
		return llm.KindUnavailable
	}
	return wire.KindOfStatus(problem.Status)
}
