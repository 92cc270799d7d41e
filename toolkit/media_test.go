package toolkit

import (
	"strings"
	"testing"
	"time"

	"voicebridge/thread"
)

func TestResultImages(t *testing.T) {
	t.Parallel()
	image := `{"image_id":"i","mimeType":"image/png"}`
	for output, want := range map[string]int{
		`{"content":[` + image + `,{"type":"text"},{"resource":` + image + `},{"image_id":"s","mimeType":"audio/wav"}]}`: 2,
		`{"content":[` + strings.Repeat(image+",", 2*MaxMedia) + image + `]}`:                                            MaxMedia,
		`{"content":"image_id"}`: 0, `{"image_id":`: 0, ``: 0,
	} {
		if got := ResultImages([]byte(output)); len(got) != want {
			t.Errorf("%.60s: %d images, want %d", output, len(got), want)
		}
	}
}

// TestApprovalIsClosedOnce: what is open cannot be closed as open, and what is closed stays as it is.
func TestApprovalIsClosedOnce(t *testing.T) {
	t.Parallel()
	v := NewRegistry().Invoke("i", Call{Name: "tool"}, 0, time.Unix(1, 0))
	v.Ask("nonce", time.Unix(1, 0))
	if v.Close(thread.ApprovalOpen) || !v.Asking() || !v.Close(thread.ApprovalInterrupted) || v.Asking() || v.Close(thread.ApprovalInterrupted) {
		t.Errorf("the approval is %+v", v.approval)
	}
}
