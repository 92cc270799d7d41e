package chat

import (
	"context"
	"strconv"

	"voicebridge/persistence"
	"voicebridge/persistence/pictures"
	"voicebridge/thread"
)

// AlignStart gives tests access to alignStart.
var AlignStart = alignStart

// LocalTitle and CleanTitle give tests access to the functions that make titles.
var (
	LocalTitle = localTitle
	CleanTitle = cleanTitle
)

// ExtractSchema and ParseExtracted give tests access to what reads calls.
var (
	ExtractSchema  = extractSchema
	ParseExtracted = parseExtracted
)

// KeepConverted keeps converted images of the given sizes, in bytes, named by their numbers, and returns which are still
// there.
func KeepConverted(sizes ...int) (left []string) {
	var f fitted
	for n, size := range sizes {
		f.keep(fittedImage{fittedName{id: strconv.Itoa(n)}, pictures.Image{Data: make([]byte, size)}})
	}
	for _, k := range f.kept {
		left = append(left, k.id)
	}
	return left
}

// Loaded returns what the first request of a turn on the thread contains, which has begun with the user's message.
func Loaded(ctx context.Context, store *persistence.Store, key thread.Key, user thread.Message) ([]thread.Message, error) {
	p := prompt{store: store}
	p.limit()
	err := p.load(ctx, &TurnRequest{Key: key}, user, "")
	return p.thread, err
}

// SessionMessage has a session answer a message, or instructions alone.
func (c *Coordinator) SessionMessage(ctx context.Context, key thread.Key, content string, instructions []string) (SessionResult, Session, error) {
	t, err := c.Turn(ctx, TurnRequest{Key: key, Session: true, Text: content, Instructions: instructions})
	if err != nil {
		return SessionResult{}, Session{}, err
	}
	r, err := t.Wait(ctx)
	if err != nil {
		return SessionResult{}, Session{}, err
	}
	return c.SessionAnswer(ctx, key, r)
}
