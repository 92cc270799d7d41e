package anthropic

import "encoding/json"

// thoughtPieces are the thoughts with which an answer begins, as they arrive.
type thoughtPieces struct {
	blocks []block
	index  int64 // of the last one's content block
	// over means that something else has begun, broken that another thought followed: then they cannot be
	// sent back in their places.
	over, broken bool
}

// begin takes the beginning of a content block.
func (t *thoughtPieces) begin(index int64, b block) {
	if b.Type != thinking && b.Type != redactedThinking {
		t.over = true
		return
	}
	t.broken = t.broken || t.over
	t.blocks, t.index = append(t.blocks, b), index
}

// add takes a piece of a content block.
func (t *thoughtPieces) add(index int64, words, signature string) {
	if n := len(t.blocks); n > 0 && t.index == index && t.blocks[n-1].Type == thinking {
		last := &t.blocks[n-1]
		last.Thinking = new(*last.Thinking + words)
		last.Signature += signature
	}
}

// metadata returns what is kept with the first call; nil if there is nothing that could be sent back.
func (t *thoughtPieces) metadata() json.RawMessage {
	if len(t.blocks) == 0 || t.broken {
		return nil
	}
	for _, b := range t.blocks {
		if b.Type == thinking && b.Signature == "" { // other servers have none
			return nil
		}
	}
	kept, err := json.Marshal(metadata{t.blocks})
	if err != nil || len(kept) > maxMetadata {
		return nil
	}
	return kept
}
