package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/pictures"
	"voicebridge/thread"
)

// Calls are the live calls of all threads; *bridge.Calls implements it.
type Calls interface {
	// Live returns the id of the thread's call; ok is false if this process has none.
	Live(owner, threadID string) (callID string, ok bool)
	// Free ends the thread's call, in any process, if it waits for its browser: then it does not hold the thread.
	Free(ctx context.Context, key thread.Key) error
	// Say says a text, with images of the thread, in the thread's call in this process, and returns the saved message.
	// A text whose id the call knows is not said again. With queued, the id of the queue's message that it is, that is
	// sent with it. The errors are persistence.ErrNotFound if there is no call, or it ended before the text was said;
	// with queued, persistence.ErrInvalid for a text that it cannot accept, and persistence.ErrBusy if it accepts none
	// just now.
	Say(ctx context.Context, key thread.Key, m thread.Message, queued string) (thread.Message, error)
	// Call returns the id of the thread's call in this process, empty for none, and whether to leave the thread alone
	// for now.
	Call(key thread.Key) (id string, busy bool)
}

// Door is where all that a user types to a thread comes in, whatever its way: it goes into the thread's live call, or
// is answered by text. It is safe for concurrent use.
type Door struct {
	*Coordinator

	calls Calls
}

// NewDoor returns the door to text turns and calls.
func NewDoor(c *Coordinator, calls Calls) *Door { return &Door{c, calls} }

// Mode says how a message is taken. The zero value says it in the thread's live call, or else begins a turn; while
// another one runs, it is refused.
type Mode struct {
	// ByText refuses the message while the thread has a live call, which answers by voice.
	ByText bool
	// Once is the client's key for its request: the same words under the same key are said once, and have the answer of
	// the first time, unless that has failed.
	Once string
	// Regenerate has a message that was said before answered again: that with the id Of or that which the message with
	// the id answers; without an id, the last one. What was said since stays, except with Chat. A live call refuses it.
	Regenerate bool
	Of         string
	// Chat is for clients that keep the conversation themselves, as useChat does, and send what they show last, whose
	// id there is Shown. A message that the thread has is answered again; one with other words now is said instead of
	// the earlier; one that it does not have is said, even to regenerate, which is how a client retries what was
	// refused. From where the user went back (Of), all is left out of later requests. A turn whose reader has left
	// gives way.
	Chat  bool
	Shown string
	// Queued is the id of a message of the queue, whose claim has found out whether it goes into the call of this
	// process.
	Queued string
	InCall bool
}

// Answer is what answers a message.
type Answer struct {
	// Reply is the turn, nil if a call answers, which has CallID.
	Reply  Reply
	CallID string
	// Message is what the user has said, as saved; zero if that was said before, unless it is known by Mode.Once.
	Message thread.Message
}

// Turn returns the turn if this process runs it or has run it, else nil.
func (a Answer) Turn() *Turn {
	t, _ := a.Reply.(*Turn)
	return t
}

// Say takes what a user types. The errors are those of [Coordinator.Turn], ErrCallChanging, ErrCallInstructions,
// ErrKeyUsed, ErrNoMessage, and those of the call.
func (d *Door) Say(ctx context.Context, req TurnRequest, mode Mode) (Answer, error) {
	if mode.Queued != "" {
		return d.queued(ctx, req, mode)
	}
	if mode.Once != "" {
		req.MessageID = persistence.OnceID(req.Key.Thread, mode.Once)
	}
	if answer, found, err := d.before(ctx, req, mode); found || err != nil {
		return answer, err
	}
	if answer, said, err := d.inCall(ctx, req, mode); said || err != nil {
		return answer, err
	}
	turn, err := d.turn(ctx, req, mode)
	if err == nil {
		return Answer{Reply: turn, Message: turn.User()}, nil
	}
	if mode.Once != "" && (errors.Is(err, ErrBusy) || errors.Is(err, persistence.ErrConflict)) {
		// The same request may just have arrived. A turn that is being prepared here has then saved its message, or
		// could not begin either.
		if running := d.Running(req.Key); running != nil {
			running.Begins(ctx)
		}
		if answer, found, err := d.before(ctx, req, mode); found || err != nil {
			return answer, err
		}
	}
	return Answer{}, err
}

// queued takes a message of the queue.
func (d *Door) queued(ctx context.Context, req TurnRequest, mode Mode) (Answer, error) {
	if !mode.InCall {
		turn, err := d.Turn(ctx, req)
		if err != nil {
			return Answer{}, err
		}
		return Answer{Reply: turn, Message: turn.User()}, nil
	}
	req.Parts = append(req.Parts, imageParts(req.Key, req.ImageIDs)...)
	_, err := d.calls.Say(ctx, req.Key, req.message(""), mode.Queued)
	return Answer{}, err
}

// imageParts are the parts of images of a thread for a call, which knows more about them.
func imageParts(key thread.Key, ids []string) (parts []thread.Part) {
	for _, id := range ids {
		parts = append(parts, pictures.ImagePart(key.Thread, pictures.Image{ID: id, MediaType: pictures.ImageTypes[0]}))
	}
	return parts
}

// Ready returns the id of the thread's call in this process, empty for none, and whether a queued message may be said
// now. The errors are those of [Coordinator.Busy].
func (d *Door) Ready(ctx context.Context, key thread.Key) (callID string, ready bool, err error) {
	callID, busy := d.calls.Call(key)
	if !busy {
		busy, err = d.Busy(ctx, key)
	}
	return callID, !busy && err == nil, err
}

// before finds what answers a message that the thread has already, because the client sends it again.
func (d *Door) before(ctx context.Context, req TurnRequest, mode Mode) (answer Answer, found bool, err error) {
	if mode.Chat && !mode.Regenerate && mode.Of == "" {
		// A call has said it, also if that is over.
		said, err := d.cfg.Store.Message(ctx, req.Key, saidID(req, mode))
		return Answer{CallID: said.Metadata.CallID, Message: said}, err == nil, nil
	}
	if mode.Once == "" {
		return Answer{}, false, nil
	}
	m, err := d.cfg.Store.Message(ctx, req.Key, req.MessageID)
	callID := m.Metadata.CallID
	switch {
	case errors.Is(err, persistence.ErrNotFound):
		return Answer{}, false, nil
	case err != nil:
		return Answer{}, false, err
	case !saysTheSame(m, req), callID != "" && mode.ByText:
		return Answer{}, false, ErrKeyUsed
	case callID != "":
		return Answer{CallID: callID, Message: m}, true, nil
	}
	answer.Message = m
	answer.Reply, err = d.Answer(ctx, req.Key, m)
	if err == nil && answer.Reply == nil { // it has failed, or was lost in a crash
		if _, _, err := d.inCall(ctx, req, Mode{ByText: true}); err != nil {
			return Answer{}, false, err
		}
		req = req.again(m.ID)
		req.Instructions = nil
		answer.Reply, err = d.Turn(ctx, req)
	}
	return answer, err == nil, err
}

// inCall says a message in the thread's live call, if there is one.
func (d *Door) inCall(ctx context.Context, req TurnRequest, mode Mode) (answer Answer, said bool, err error) {
	key, id := req.Key, req.MessageID
	if err := d.calls.Free(ctx, key); err != nil {
		return Answer{}, false, err
	}
	callID, here, err := d.live(ctx, key)
	switch {
	case err != nil || callID == "":
		return Answer{}, false, err
	case mode.ByText, mode.Regenerate:
		return Answer{}, false, ErrInCall
	case len(req.Instructions) > 0:
		return Answer{}, false, ErrCallInstructions
	case mode.Chat:
		if _, edited, err := d.shown(ctx, req, mode); err == nil && !edited {
			return Answer{}, false, ErrInCall
		}
		id = saidID(req, mode)
	}
	images, err := d.keepImages(ctx, key, req.Images)
	if err != nil {
		return Answer{}, false, err
	}
	parts := append([]thread.Part{thread.TextPart(req.Text)}, imageParts(key, slices.Concat(images, req.ImageIDs))...)
	m, err := d.calls.Say(ctx, key, thread.Message{ID: id, Parts: parts}, "")
	switch {
	case errors.Is(err, persistence.ErrNotFound) && here: // it has just ended
		return Answer{}, false, nil
	case errors.Is(err, persistence.ErrNotFound): // another instance has it, or it has just begun
		return Answer{}, false, ErrCallChanging
	}
	return Answer{CallID: callID, Message: m}, err == nil, err
}

// LiveCall returns the id of the thread's live call, in any process; empty if there is none.
func (d *Door) LiveCall(ctx context.Context, key thread.Key) (id string, err error) {
	id, _, err = d.live(ctx, key)
	return id, err
}

// live is LiveCall; here means that this process has the call.
func (d *Door) live(ctx context.Context, key thread.Key) (id string, here bool, err error) {
	if id, here = d.calls.Live(key.Owner, key.Thread); here {
		return id, true, nil
	}
	call, err := d.cfg.Store.Records.LiveCall(ctx, key)
	if errors.Is(err, persistence.ErrNotFound) {
		return "", false, nil
	}
	return call.ID, false, err
}

// turn begins the turn that answers a message.
func (d *Door) turn(ctx context.Context, req TurnRequest, mode Mode) (*Turn, error) {
	switch {
	case mode.Chat:
		turn, err := d.chatTurn(ctx, req, mode)
		if errors.Is(err, ErrBusy) && d.gaveWay(ctx, req.Key) {
			turn, err = d.chatTurn(ctx, req, mode)
		}
		return turn, err
	case mode.Regenerate:
		asked, err := d.Asked(ctx, req.Key, mode.Of)
		if err != nil {
			return nil, err
		}
		return d.Turn(ctx, req.again(asked.ID))
	}
	return d.Turn(ctx, req)
}

// again returns a request that has a saved message answered again.
func (r TurnRequest) again(id string) TurnRequest {
	r.Text, r.Images = "", nil
	r.ImageIDs, r.Parts = nil, nil
	r.Extra = nil
	r.Saved, r.MessageID = true, id
	return r
}

// chatTurn begins the turn for a client that keeps the conversation itself. A message that the user has edited, which
// keeps its id there, is a new one here.
func (d *Door) chatTurn(ctx context.Context, req TurnRequest, mode Mode) (*Turn, error) {
	asked, edited, err := d.shown(ctx, req, mode)
	switch {
	case err == nil && !edited:
		req = req.again(asked.ID)
		if mode.Regenerate || mode.Of == mode.Shown {
			req.Back = asked.ID
		}
		return d.Turn(ctx, req)
	case err == nil:
		req.Back, req.SentAs = asked.ID, mode.Shown
		return d.Turn(ctx, req)
	case !errors.Is(err, ErrNoMessage):
		return nil, err
	}
	req.MessageID = mode.Shown
	t, err := d.Turn(ctx, req)
	if errors.Is(err, persistence.ErrConflict) { // another thread's message has this id, or one before a reset
		req.MessageID, req.SentAs = "", mode.Shown
		t, err = d.Turn(ctx, req)
	}
	return t, err
}

// shown finds the user's message in the thread that a client wants to be answered; edited means that it has other words
// now. ErrNoMessage means that it is new.
func (d *Door) shown(ctx context.Context, req TurnRequest, mode Mode) (asked thread.Message, edited bool, err error) {
	if mode.Shown != "" {
		asked, err = d.Asked(ctx, req.Key, mode.Shown, saidID(req, mode))
		if !errors.Is(err, ErrNoMessage) {
			return asked, err == nil && req.says() && !saysTheSame(asked, req), err
		}
	}
	if mode.Regenerate && mode.Of != "" {
		asked, err = d.Asked(ctx, req.Key, mode.Of)
		if !errors.Is(err, ErrNoMessage) {
			return asked, false, err
		}
	}
	if mode.Regenerate {
		asked, err = d.Asked(ctx, req.Key)
		if err == nil && (!req.says() || saysTheSame(asked, req)) || err != nil && !errors.Is(err, ErrEmpty) {
			return asked, false, err
		}
	}
	return asked, false, ErrNoMessage
}

// saidID returns the id that a client's message gets in a call, where it cannot have the client's; empty for a new one.
func saidID(req TurnRequest, mode Mode) string {
	if mode.Shown == "" {
		return ""
	}
	return persistence.OnceID(req.Key.Thread, fmt.Sprintf("%s %q %q", mode.Shown, req.Text, req.Images))
}

// saysTheSame reports whether a saved message has the words of a request, and as many images; without either, what
// counts are the words of its last instruction. Saved words have no NUL.
func saysTheSame(saved thread.Message, req TurnRequest) bool {
	images := 0
	for _, p := range saved.Parts {
		if p.Type == "file" {
			images++
		}
	}
	words, attached := req.Text, len(req.Images)+len(req.ImageIDs)
	if n := len(req.Instructions); n > 0 && words == "" && attached == 0 {
		words = req.Instructions[n-1]
	}
	words = strings.ReplaceAll(words, "\x00", "")
	return strings.TrimSpace(saved.Text()) == strings.TrimSpace(words) && images == attached
}

// wayGrace is how long a message waits for the end of the turn that its client has just stopped.
const wayGrace = 3 * time.Second

// gaveWay waits a moment for the end of the thread's turn, and reports whether it came: a client that stops one turn,
// which only cuts its stream, and begins another does not wait for the first, whose end is noticed and saved a little
// later.
func (d *Door) gaveWay(ctx context.Context, key thread.Key) bool {
	t := d.here(key)
	if t == nil {
		return true
	}
	t.yield()
	grace, cancel := context.WithTimeout(ctx, wayGrace)
	defer cancel()
	_, err := t.Wait(grace)
	return err == nil
}

// Asked finds the user's message that should be answered again: the last one with one of the ids, or sent under it, or
// that the message with the id answers (ErrNoMessage if there is no such message); without ids, the last one (ErrEmpty
// if there is none).
func (c *Coordinator) Asked(ctx context.Context, key thread.Key, ids ...string) (thread.Message, error) {
	messages, err := c.cfg.Store.Replay(ctx, key, maxReplay)
	if err != nil {
		return thread.Message{}, fmt.Errorf("find message: %w", err)
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	found := len(ids) == 0
	for _, m := range slices.Backward(messages) {
		if !found && (slices.Contains(ids, m.ID) || slices.Contains(ids, extraText(&m, extraSentAs))) {
			if answered := extraText(&m, extraAnswers); answered != "" {
				return c.cfg.Store.Message(ctx, key, answered)
			}
			found = true
		}
		if found && m.Role == thread.RoleUser && (len(ids) > 0 || !m.IsDiscarded()) {
			return m, nil
		}
	}
	if !found {
		return thread.Message{}, fmt.Errorf("find message: %w", ErrNoMessage)
	}
	return thread.Message{}, fmt.Errorf("find message: %w", ErrEmpty)
}

// keepImages saves in the thread the images that came as data URLs, and returns the ids of all, in
// their order. The errors are ErrImages, also for an image of another address, and the store's.
func (c *Coordinator) keepImages(ctx context.Context, key thread.Key, images []Image) (ids []string, err error) {
	if len(images) == 0 {
		return nil, nil
	}
	if err := checkImages(images, key.Thread, 0); err != nil {
		return nil, fmt.Errorf("keep images: %w", err)
	}
	var kept []Image
	err = c.cfg.Store.Batch(ctx, key, func(b *persistence.Batch) (err error) {
		kept, err = keepImages(b, key.Thread, images, c.cfg.ImageQuota)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("keep images: %w", err)
	}
	for _, i := range kept {
		id, _ := i.part().ImageID(key.Thread)
		ids = append(ids, id)
	}
	return ids, nil
}

// Find returns the turn that makes a message of the assistant, or what is saved of it; without an id, the turn that is
// running on the thread in this process. ErrIdle means that there is none.
func (c *Coordinator) Find(ctx context.Context, key thread.Key, messageID string) (Reply, error) {
	here := c.Running(key)
	if here != nil &&
		(messageID == "" && !here.Ended() || messageID != "" && here.Begins(ctx) && here.MessageID() == messageID) {
		return here, nil
	}
	if _, err := c.cfg.Store.Thread(ctx, key); err != nil {
		return nil, err
	}
	return c.made(ctx, key, messageID)
}
