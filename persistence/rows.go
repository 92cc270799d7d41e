package persistence

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

func threadFromRow(r pgdb.Thread) Thread {
	t := Thread{
		ID: r.ID, Owner: r.Owner, Title: r.Title, TitleBy: TitleBy(r.TitleBy), CreatedAt: r.CreatedAt.Time,
		UpdatedAt: r.UpdatedAt.Time, ResetSeq: r.ResetSeq,
	}
	t.AssistantID, t.AssistantOwner = r.AssistantID, r.AssistantOwner
	if len(r.Variables) > 2 { // not {}
		_ = json.Unmarshal(r.Variables, &t.Variables) // SetAssistant wrote it
	}
	return t
}

func messageFromRow(r pgdb.Message) (thread.Message, error) {
	m := thread.Message{ID: r.ID, Role: thread.Role(r.Role), Seq: r.Seq, Revision: r.Revision}
	if err := cmp.Or(json.Unmarshal(r.Parts, &m.Parts), json.Unmarshal(r.Metadata, &m.Metadata)); err != nil {
		return thread.Message{}, fmt.Errorf("read message %s: %w", r.ID, err)
	}
	d := &m.Metadata
	d.Source, d.Status = thread.Source(r.Source), thread.Status(r.Status)
	d.CallID, d.ItemID = r.CallID, r.ItemID
	d.Model, d.Voice = r.Model, r.Voice
	d.HeardText, d.AudioEndMS = r.HeardText, r.AudioEndMs
	d.CreatedAt, d.Seq = r.CreatedAt.Time, r.Seq
	return m, nil
}

// writtenMessage returns what was written as p as a reader would get it.
func writtenMessage(p pgdb.InsertMessageParams, revision int64) (thread.Message, error) {
	if p.AudioEndMs != nil {
		p.AudioEndMs = new(*p.AudioEndMs) // the caller may change its own
	}
	return messageFromRow(pgdb.Message{
		ID: p.ID, Role: p.Role, Seq: p.Seq, Revision: revision, Source: p.Source, Status: p.Status, Parts: p.Parts,
		Metadata: p.Metadata, CallID: p.CallID, ItemID: p.ItemID, Model: p.Model, Voice: p.Voice,
		HeardText: p.HeardText, AudioEndMs: p.AudioEndMs, CreatedAt: p.CreatedAt,
	})
}

// messageToRow converts a validated message. Callers set Seq and Context; created_at defaults to
// now.
func messageToRow(key thread.Key, m thread.Message, instance string, now time.Time) (pgdb.InsertMessageParams, error) {
	d := m.Metadata
	if m.Parts == nil {
		m.Parts = []thread.Part{}
	}
	parts, err := thread.Encode(m.Parts)
	if err != nil {
		return pgdb.InsertMessageParams{}, Invalid("message: %v", err)
	}
	// What has its own column is not written twice.
	meta, err := thread.Encode(thread.Metadata{Usage: d.Usage, LatencyMS: d.LatencyMS, Audio: d.Audio, Extra: d.Extra})
	if err != nil {
		return pgdb.InsertMessageParams{}, Invalid("message: %v", err)
	}
	if d.CreatedAt.IsZero() {
		d.CreatedAt = now
	}
	text := thread.CleanText(m.Text())
	return pgdb.InsertMessageParams{
		ID: m.ID, ThreadID: key.Thread, Owner: key.Owner,
		Role: string(m.Role), Source: cmp.Or(string(d.Source), string(thread.SourceText)),
		Status: cmp.Or(string(d.Status), string(thread.StatusCompleted)),
		Text:   text, SearchText: searchText(text),
		Parts: database.CleanJSON(parts), Metadata: database.CleanJSON(meta),
		CallID: thread.CleanText(d.CallID), ItemID: thread.CleanText(d.ItemID), Model: thread.CleanText(d.Model),
		Voice: thread.CleanText(d.Voice), HeardText: cleanPtr(d.HeardText), AudioEndMs: d.AudioEndMS,
		Instance: instance, CreatedAt: dbtype.At(d.CreatedAt), UpdatedAt: dbtype.At(now),
	}, nil
}

// messageChange is messageToRow for an existing message.
func messageChange(p pgdb.InsertMessageParams, revision int64) pgdb.UpdateMessageParams {
	return pgdb.UpdateMessageParams{
		ID: p.ID, ThreadID: p.ThreadID, Owner: p.Owner, Revision: revision,
		Source: p.Source, Status: p.Status, Text: p.Text, SearchText: p.SearchText,
		Parts: p.Parts, Metadata: p.Metadata, CallID: p.CallID, ItemID: p.ItemID, Model: p.Model, Voice: p.Voice,
		HeardText: p.HeardText, AudioEndMs: p.AudioEndMs, Instance: p.Instance, UpdatedAt: p.UpdatedAt,
	}
}

func cleanPtr(s *string) *string {
	if s == nil {
		return nil
	}
	return new(thread.CleanText(*s))
}

// byRevision sorts messages by when they changed.
func byRevision(messages []thread.Message) {
	slices.SortFunc(messages, func(a, b thread.Message) int { return int(a.Revision - b.Revision) })
}
