package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/pictures"
	"voicebridge/thread"
)

// contextTimeout is how long a turn waits for its context.
const contextTimeout = 2 * time.Second

// prompt makes the messages of a turn's requests from its thread.
type prompt struct {
	store    *persistence.Store
	history  HistoryConfig
	provider string
	accepts  llm.Accepts // of the model
	fitted   *fitted
	log      *slog.Logger
	thread   []thread.Message // with what the turn answers at the end, once it is loaded
}

// limit makes requests contain no more of the thread than the model accepts, with as much room for the answer.
func (p *prompt) limit() {
	p.history = p.history.withDefaults()
	p.history.sorts = !p.store.KeepsOrder()
	if n := p.accepts.ContextTokens / 2; n > 0 && n < p.history.MaxTokens {
		p.history.MaxTokens, p.history.tight = n, true
		p.history = p.history.withDefaults()
	}
}

// shorten leaves out three quarters of what the last request contained of the thread. It returns false if that is not
// possible: what the turn answers stays, and so do instructions.
func (p *prompt) shorten() bool {
	before := p.size()
	p.history.MaxTokens, p.history.tight = max(1, before/4), true
	p.history = p.history.withDefaults()
	return p.size() < before
}

// size is how long requests are, in tokens, without instructions.
func (p *prompt) size() (n int) {
	for _, e := range p.history.entries(p.thread, p.provider) {
		if e.Role != llm.RoleSystem {
			n += e.tokens()
		}
	}
	return n
}

// load reads the thread, and puts the message or question that the turn answers at the end. user is the message that
// the turn has begun with, if any: the thread may have been reset since.
func (p *prompt) load(ctx context.Context, req *TurnRequest, user thread.Message, note string) error {
	messages, err := p.store.Replay(ctx, req.Key, p.history.replayed())
	if err != nil {
		return err
	}
	if len(messages) == p.history.replayed() {
		messages = alignStart(messages)
		instructions, err := p.store.Instructions(ctx, req.Key, messages[0].Seq, maxReplay)
		if err != nil {
			return err
		}
		messages = append(instructions, messages...)
	}
	messages = thread.WithoutEchoes(messages)
	if req.Saved {
		if user, err = p.store.Message(ctx, req.Key, req.MessageID); err != nil {
			return err
		}
	}
	switch {
	case user.ID != "":
		messages = append(slices.DeleteFunc(messages, func(m thread.Message) bool { return m.ID == user.ID }), user)
	case req.Question != "":
		messages = append(withoutOpenCalls(messages), (&TurnRequest{Text: req.Question}).message(note))
	}
	p.thread = messages
	return nil
}

// messages returns what requests contain of the thread.
func (p *prompt) messages(ctx context.Context, key thread.Key) []llm.Message {
	return p.show(ctx, key, p.history.entries(p.thread, p.provider))
}

// remember returns a step with calls as later turns will read it, but with its secrets, which the model needs to go on.
func (p *prompt) remember(ctx context.Context, key thread.Key, d *draft, calls []*call) []llm.Message {
	parts, first := d.step(calls[0].part)
	for _, c := range calls {
		parts[c.part-first] = c.WholePart()
	}
	h := HistoryConfig{MaxTokens: 1 << 30, sorts: p.history.sorts} // the last message is never cut anyway
	step := thread.Message{Role: thread.RoleAssistant, Parts: parts}
	return p.show(ctx, key, h.entries([]thread.Message{step}, p.provider))
}

// contextNote asks a builder for the turn's context. The turn goes on without it if that fails.
func contextNote(ctx context.Context, builder ContextBuilder, in ContextInput) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, contextTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			text, err = "", fmt.Errorf("build context: panic: %v", p)
		}
	}()
	return builder.Context(ctx, in)
}

// show puts the last images into their messages. Unreadable ones are replaced by a remark.
func (p *prompt) show(ctx context.Context, key thread.Key, entries []entry) []llm.Message {
	messages := make([]llm.Message, len(entries))
	shown, size := 0, 0
	for at := len(entries) - 1; at >= 0; at-- {
		messages[at] = entries[at].Message
		for _, image := range entries[at].images {
			if shown++; shown > maxShown {
				break
			}
			saved, err := p.read(ctx, key, image)
			if size += len(saved.Data); err == nil && size > maxShownBytes {
				err = ErrTooLarge
			}
			if err != nil {
				p.log.Warn("image not shown to the model", "error", err)
				messages[at].Content = strings.TrimSpace(lostImage + "\n" + messages[at].Content)
				continue
			}
			messages[at].Images = append(messages[at].Images, llm.Image{MediaType: saved.MediaType, Data: saved.Data})
		}
	}
	return messages
}

// errBlind means that the model reads no images.
var errBlind = errors.New("the model reads no images")

// read reads an image, in a form that the provider accepts.
func (p *prompt) read(ctx context.Context, key thread.Key, i Image) (saved pictures.Image, err error) {
	if p.accepts.NoImages {
		return saved, errBlind
	}
	id, ofThread := strings.CutPrefix(i.URL, thread.ImagePath(key.Thread))
	switch data, ok := i.data(); {
	case ok:
		saved, err = pictures.NewImage(data)
	case ofThread:
		if saved, err = p.store.Pictures.Read(ctx, key, id); err == nil {
			return p.fitted.fit(fittedName{key, id, p.provider}, saved, p.accepts.Images)
		}
	default:
		err = fmt.Errorf("read image: %w", persistence.ErrNotFound)
	}
	if err != nil {
		return saved, err
	}
	return fit(saved, p.accepts.Images)
}
