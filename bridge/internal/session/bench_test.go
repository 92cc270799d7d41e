package session

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// BenchmarkAnswer feeds the state answers of 256 pieces of text, 20 a second. It reports
// the average cost of an event: the last ones carry the whole text.
func BenchmarkAnswer(b *testing.B) {
	const pieces = 256
	for _, size := range []int{10, 80} {
		b.Run(fmt.Sprintf("%d bytes", size), func(b *testing.B) {
			s := newTestState(b, Config{})
			now := epoch
			events := 0
			take := func(format string, args ...any) {
				events++
				s.Reduce(now, UpstreamEvent{Gen: 1, Data: fmt.Appendf(nil, format, args...)})
			}
			take(`{"type":"session.created","session":{}}`)
			take(`{"type":"session.updated","session":{}}`)
			piece := strings.Repeat("ten bytes ", size/10)
			text := strings.Repeat(piece, pieces)
			events = 0
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; events < b.N; n++ {
				item := fmt.Sprintf(`{"id":"item_%d","object":"realtime.item","type":"message","role":"assistant","status":"in_progress","content":[]}`, n)
				take(`{"type":"response.created","event_id":"e","response":{"id":"resp_%d","status":"in_progress","output":[]}}`, n)
				take(`{"type":"response.output_item.added","event_id":"e","response_id":"resp_%d","output_index":0,"item":%s}`, n, item)
				take(`{"type":"conversation.item.added","event_id":"e","previous_item_id":"item_%d","item":%s}`, n-1, item)
				take(`{"type":"output_audio_buffer.started","event_id":"e","response_id":"resp_%d"}`, n)
				for range pieces {
					now = now.Add(50 * time.Millisecond)
					take(`{"type":"response.output_audio_transcript.delta","event_id":"e","response_id":"resp_%d","item_id":"item_%[1]d","output_index":0,"content_index":0,"delta":%q}`, n, piece)
				}
				item = fmt.Sprintf(`{"id":"item_%d","object":"realtime.item","type":"message","role":"assistant","status":"completed","content":[{"type":"output_audio","transcript":%q}]}`, n, text)
				take(`{"type":"response.output_audio_transcript.done","event_id":"e","response_id":"resp_%d","item_id":"item_%[1]d","output_index":0,"content_index":0,"transcript":%q}`, n, text)
				take(`{"type":"response.output_item.done","event_id":"e","response_id":"resp_%d","output_index":0,"item":%s}`, n, item)
				take(`{"type":"conversation.item.done","event_id":"e","item":%s}`, item)
				take(`{"type":"response.done","event_id":"e","response":{"id":"resp_%d","status":"completed","output":[%s]}}`, n, item)
				take(`{"type":"output_audio_buffer.stopped","event_id":"e","response_id":"resp_%d"}`, n)
			}
		})
	}
}
