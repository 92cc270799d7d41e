package session

import (
	"encoding/json"
	"maps"

	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/realtime"
)

// Members of the metadata of an answer that was not spoken whole.
const (
	metaSpoken     = "spoken"
	metaSpokenText = "spoken_text"
)

// spoken takes how a response was spoken: [realtime.TypeSpeech].
func (s *State) spoken(ev *event) {
	var told struct {
		Resumed   int64             `json:"resumed"`
		Texts     map[string]string `json:"spoken_texts"`
		LatencyMS map[string]int64  `json:"latency_ms"`
		Model     string            `json:"model"`
	}
	r := s.answers.byID[ev.ResponseID]
	if json.Unmarshal(ev.Raw, &told) != nil || r == nil {
		return
	}
	for _, m := range r.messages {
		if text, cut := told.Texts[m.item.id]; cut {
			m.note(metaSpoken, false)
			if text != "" {
				m.note(metaSpokenText, text)
			}
		}
		if told.Resumed > 0 && m.item.id == ev.ItemID {
			m.note(metaResumed, told.Resumed)
		}
	}
	if len(told.LatencyMS) > 0 && len(r.messages) > 0 {
		latency := maps.Clone(told.LatencyMS)
		for stage, ms := range r.latency { // what the caller got comes first, and is counted since the turn was over
			latency[stage] = ms + told.LatencyMS["turn"]
		}
		r.latency = latency
		r.messages[0].meta.LatencyMS, r.messages[0].changed = latency, true
	}
	usage, err := realtime.DecodeUsage(ev.Usage)
	if err != nil || usage.Characters == 0 || r.charged {
		return
	}
	r.charged = true
	rec := records.Response{
		ID: s.newID(), Kind: records.KindSpeech, CallID: s.CallID, MessageID: r.record.MessageID,
		Upstream: s.record.Upstream, UpstreamID: r.id, Model: told.Model, Status: realtime.ResponseCompleted,
		RawUsage: usage.Raw, CreatedAt: r.record.CreatedAt, FinishedAt: new(s.now),
	}
	if s.TranscriptionCost != nil {
		rec.CostUSD = s.TranscriptionCost(rec.Upstream, rec.Model, usage)
	}
	s.save(persistence.PutResponse{Response: rec})
	s.answers.turn.charges = append(s.answers.turn.charges, rec)
	s.limiter.charge(rec.CostUSD)
}
