package persistence

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"voicebridge/persistence/internal/pgdb"
)

// Draft is text added to a growing message. Writing it is much cheaper than writing the message
// again; reading the message includes its drafts. Writing the whole message replaces them.
type Draft struct {
	MessageID string `json:"message_id"`
	// Start is how many bytes the message's last text part had before.
	Start int    `json:"start"`
	Text  string `json:"text"`
}

func (d Draft) validate() error {
	switch {
	case !validID(d.MessageID):
		return Invalid("draft: the message's id is not 1 to %d bytes of text", MaxIDBytes)
	case d.Start < 0 || d.Start+len(d.Text) > MaxMessageBytes:
		return Invalid("draft: it ends at byte %d, of at most %d", d.Start+len(d.Text), MaxMessageBytes)
	}
	return nil
}

// SaveDraft adds to a message in progress. A draft that adds nothing new, or whose message does not
// exist, changes nothing. Watchers are not notified: see Delta.
func (b *Batch) SaveDraft(d Draft) error {
	return b.do("save draft", func() error {
		d.Text = cleanText(d.Text)
		if err := d.validate(); err != nil {
			return err
		}
		n, err := b.q.SaveDraft(b.ctx, pgdb.SaveDraftParams{
			MessageID: d.MessageID, ThreadID: b.key.Thread, Owner: b.key.Owner, Start: int64(d.Start), Text: d.Text,
		})
		if err != nil || n > 0 {
			return err
		}
		return b.addToClosed(d)
	})
}

// addToClosed adds text that a dead process still had in its spool to a message that has been
// closed meanwhile.
func (b *Batch) addToClosed(d Draft) error {
	row, err := b.q.GetMessage(b.ctx, pgdb.GetMessageParams{ID: d.MessageID, ThreadID: b.key.Thread, Owner: b.key.Owner})
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	m, err := messageFromRow(row)
	if err != nil {
		return err
	}
	before := m.grownBytes()
	closed := m.Metadata.Status == StatusInterrupted || m.Metadata.Status == StatusFailed
	if !closed || d.Start > before {
		return nil
	}
	if m.grow([]pgdb.Draft{{Start: int64(d.Start), Text: d.Text}}); m.grownBytes() == before {
		return nil
	}
	_, err = b.update(m)
	return err
}

// lastText returns the index of the message's last text part, -1 if there is none.
func (m *Message) lastText() int {
	for i := len(m.Parts) - 1; i >= 0; i-- {
		if m.Parts[i].Type == partText {
			return i
		}
	}
	return -1
}

// grownBytes returns the length of the message's last text part.
func (m *Message) grownBytes() int {
	if i := m.lastText(); i >= 0 {
		return len(m.Parts[i].Text)
	}
	return 0
}

// grow adds drafts, in order, as long as they continue the message's last text part.
func (m *Message) grow(drafts []pgdb.Draft) {
	if len(drafts) == 0 {
		return
	}
	at := m.lastText()
	if at < 0 {
		m.Parts = append(m.Parts, TextPart(""))
		at = len(m.Parts) - 1
	}
	text := []byte(m.Parts[at].Text)
	for _, d := range drafts {
		if known := len(text) - int(d.Start); known >= 0 && known < len(d.Text) {
			text = append(text, d.Text[known:]...)
		}
	}
	m.Parts[at].Text = string(text)
}

// whole reads a message with its drafts, in a transaction.
func whole(ctx context.Context, q queries, row pgdb.Message) (Message, error) {
	m, err := messageFromRow(row)
	if err != nil || m.Metadata.Status != StatusInProgress {
		return m, err
	}
	drafts, err := q.ListDrafts(ctx, pgdb.ListDraftsParams{MessageID: m.ID})
	m.grow(drafts)
	return m, err
}

// wholes is whole for the messages of a thread, outside a transaction. A message that is moved
// meanwhile keeps the place of its row, so that the order of the rows remains.
func (s *Store) wholes(ctx context.Context, key Key, rows []pgdb.Message) ([]Message, error) {
	messages := make([]Message, 0, len(rows))
	for _, row := range rows {
		m, err := s.latest(ctx, key, row)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, err
		}
		m.Seq, m.Metadata.Seq = row.Seq, row.Seq
		messages = append(messages, m)
	}
	return slices.Clip(messages), nil
}

// latest is whole outside a transaction. A change between the two queries deletes drafts, so the row
// is read until it stays as it is.
func (s *Store) latest(ctx context.Context, key Key, row pgdb.Message) (Message, error) {
	q := s.eng.read()
	for {
		m, err := whole(ctx, q, row)
		if err != nil || m.Metadata.Status != StatusInProgress {
			return m, err
		}
		read := row.Revision
		row, err = q.GetMessage(ctx, pgdb.GetMessageParams{ID: m.ID, ThreadID: key.Thread, Owner: key.Owner})
		if err != nil || row.Revision == read {
			return m, err
		}
	}
}
