package google

import (
	"encoding/json"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// kindOf classifies the errors of https://ai.google.dev/gemini-api/docs/troubleshooting by status
// and details.
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
			if strings.Contains(v.QuotaID, "PerDay") { // waiting a moment does not help
				return llm.KindQuota
			}
		}
	}
	switch problem.Type {
	case "UNAUTHENTICATED", "PERMISSION_DENIED":
		return llm.KindAuth
	case "RESOURCE_EXHAUSTED":
		return llm.KindRate
	case "UNAVAILABLE", "INTERNAL", "ABORTED":
		return llm.KindOverloaded
	case "DEADLINE_EXCEEDED":
		return llm.KindTimeout
	case "INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND", "OUT_OF_RANGE", "UNIMPLEMENTED":
		return llm.KindBadRequest
	}
	if malformed(problem.Type) {
		return llm.KindUnavailable
	}
	return wire.KindOfStatus(problem.Status)
}
