package web

import (
	"encoding/json"

	"voicebridge/web/problem"
)

// texts is one text or a list of texts; a single empty text counts as none.
type texts []string

func (t *texts) UnmarshalJSON(data []byte) error {
	var one *string
	if json.Unmarshal(data, &one) == nil {
		*t = nil
		if one != nil && *one != "" {
			*t = texts{*one}
		}
		return nil
	}
	if json.Unmarshal(data, (*[]string)(t)) != nil {
		return problem.BadRequest("invalid_value", "instructions", "instructions must be a text or a list of texts.")
	}
	return nil
}
