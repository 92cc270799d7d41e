package web

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/web/problem"
)

// texts is one text or a list of texts; a single empty text counts as none.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
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

// waitLong removes the deadline of an answer that a model is still making.
func waitLong(c echo.Context) {
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Time{})
}

// answerSoon sets it again, for the client to read.
func answerSoon(c echo.Context) {
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(answerTimeout))
}
