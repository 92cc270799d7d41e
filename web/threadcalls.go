package web

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// threadCalls serves the route about the calls of a thread.
type threadCalls struct {
	store threadReader
	calls callLister
}

func (h *threadCalls) routes(r router) { r.GET("/api/threads/:id/calls", onThread(h.list), r.user) }

// callLister is what the route about a thread's calls needs of the store.
type callLister interface {
	Calls(ctx context.Context, key thread.Key) ([]records.Call, error)
}

type callAnswer struct {
	CallID        string     `json:"call_id"`
	Upstream      string     `json:"upstream"`
	Model         string     `json:"model"`
	Voice         string     `json:"voice"`
	AssistantID   string     `json:"assistant_id,omitempty"`
	StartedAt     time.Time  `json:"started_at"`
	ReadyAt       *time.Time `json:"ready_at"`
	EndedAt       *time.Time `json:"ended_at"`
	EndReason     string     `json:"end_reason,omitempty"`
	Turns         int64      `json:"turns"`
	Interruptions int64      `json:"interruptions"`
	CostUSD       *float64   `json:"cost_usd"` // null while no price is known
	// Extraction is empty if nobody reads the call after its end.
	Extraction      records.Extraction `json:"extraction,omitempty"`
	ExtractionError string             `json:"extraction_error,omitempty"`
	Summary         string             `json:"summary,omitempty"`
	Extracted       json.RawMessage    `json:"extracted,omitempty"`
}

// list returns the calls of a thread, the oldest first.
func (h *threadCalls) list(c echo.Context, key thread.Key) error {
	ctx := c.Request().Context()
	if _, err := h.store.Thread(ctx, key); err != nil {
		return orThread(err)
	}
	calls, err := h.calls.Calls(ctx, key)
	if err != nil {
		return err
	}
	answer := make([]callAnswer, 0, len(calls))
	for _, r := range calls {
		answer = append(answer, callAnswer{
			CallID: r.ID, Upstream: r.Upstream, Model: r.Model, Voice: r.Voice, AssistantID: r.AssistantID, StartedAt: r.StartedAt, ReadyAt: r.ReadyAt,
			EndedAt: r.EndedAt, EndReason: r.EndReason, Turns: r.Turns, Interruptions: r.Interruptions, CostUSD: r.CostUSD,
			Extraction: r.Extraction, ExtractionError: r.ExtractionError, Summary: r.Summary, Extracted: r.Extracted,
		})
	}
	return c.JSON(http.StatusOK, map[string]any{"calls": answer})
}
