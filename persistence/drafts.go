package persistence

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
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
	case !thread.ValidID(d.MessageID):
		return Invalid("draft: the message's id is not 1 to %d bytes of text", thread.MaxIDBytes)
	case d.Start < 0 || d.Start+len(d.Text) > thread.MaxMessageBytes:
		return Invalid("draft: it ends at byte %d, of at most %d", d.Start+len(d.Text), thread.MaxMessageBytes)
	}
	return nil
}

// SaveDraft adds to a message in progress. A draft that adds nothing new, or whose message does not
// exist, changes nothing. Watchers of this process are not notified: see Delta.
func (b *Batch) SaveDraft(d Draft) error {
	return b.do("save draft", func() error {
		d.Text = thread.CleanText(d.Text)
		if err := d.validate(); err != nil {
			return err
		}
		n, err := b.q.SaveDraft(b.ctx, pgdb.SaveDraftParams{
			MessageID: d.MessageID, ThreadID: b.key.Thread, Owner: b.key.Owner, Start: int64(d.Start), Text: d.Text,
		})
		if err != nil || n > 0 {
			b.changed.grew = true
			return err
		}
		return b.addToClosed(d)
	})
}

// addToClosed adds text that a dead process still had in its spool to a message that has been
// closed meanwhile.
func (b *Batch) addToClosed(d Draft) error {
	row, err := b.q.GetMessage(b.ctx, d.MessageID, b.key.Thread, b.key.Owner)
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
	before := grownBytes(&m)
	closed := m.Metadata.Status == thread.StatusInterrupted || m.Metadata.Status == thread.StatusFailed
	if !closed || d.Start > before {
		return nil
	}
	if grow(&m, []pgdb.Draft{{Start: int64(d.Start), Text: d.Text}}); grownBytes(&m) == before {
		return nil
	}
	_, err = b.update(m)
	return err
}

// lastText returns the index of the message's last text part, -1 if there is none.
func lastText(m *thread.Message) int {
	for i := len(m.Parts) - 1; i >= 0; i-- {
		if m.Parts[i].Type == thread.PartText {
			return i
		}
	}
	return -1
}

// grownBytes returns the length of the message's last text part.
func grownBytes(m *thread.Message) int {
	if i := lastText(m); i >= 0 {
		return len(m.Parts[i].Text)
	}
	return 0
}

// grow adds drafts, in order, as long as they continue the message's last text part.
func grow(m *thread.Message, drafts []pgdb.Draft) {
	if len(drafts) == 0 {
		return
	}
	at := lastText(m)
	if at < 0 {
		m.Parts = append(m.Parts, thread.TextPart(""))
		at = len(m.Parts) - 1
	}
	text := []byte(m.Parts[at].Text)
	for _, d := range drafts {
		if overlap := len(text) - int(d.Start); overlap >= 0 && overlap < len(d.Text) {
			text = append(text, d.Text[overlap:]...)
		}
	}
	m.Parts[at].Text = string(text)
}

// whole reads a message with its drafts, in a transaction.
func whole(ctx context.Context, q queries, row pgdb.Message) (thread.Message, error) {
	m, err := messageFromRow(row)
	if err != nil || m.Metadata.Status != thread.StatusInProgress {
		return m, err
	}
	drafts, err := q.ListDrafts(ctx, m.ID)
	grow(&m, drafts)
	return m, err
}

// wholes is whole for the messages of a thread, outside a transaction. A message that is moved
// meanwhile keeps the place of its row, so that the order of the rows remains.
func wholes(ctx context.Context, q queries, key thread.Key, rows []pgdb.Message) ([]thread.Message, error) {
	messages := make([]thread.Message, 0, len(rows))
	for _, row := range rows {
		m, err := latest(ctx, q, key, row)
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
func latest(ctx context.Context, q queries, key thread.Key, row pgdb.Message) (thread.Message, error) {
	for {
		m, err := whole(ctx, q, row)
		if err != nil || m.Metadata.Status != thread.StatusInProgress {
			return m, err
		}
		read := row.Revision
		row, err = q.GetMessage(ctx, m.ID, key.Thread, key.Owner)
		if err != nil || row.Revision == read {
			return m, err
		}
	}
}
