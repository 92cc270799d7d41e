package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"voicebridge/assistant"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// threadReader finds an owner's thread.
type threadReader interface {
	Thread(ctx context.Context, key thread.Key) (persistence.Thread, error)
}

// threads serves the routes about threads.
type threads struct {
	store threadStore
	calls interface {
		Forget(ctx context.Context, key thread.Key) error
	}
	remove     *remover
	assistants *assistantFinder
	events     securityLog
}

func (h *threads) routes(r router) {
	r.GET("/api/threads", h.list, r.user)
	r.POST("/api/threads", h.create, r.user, r.text, r.thread)
	r.GET("/api/threads/:id", onThread(h.read), r.user)
	r.PATCH("/api/threads/:id", onThread(h.change), r.user)
	r.DELETE("/api/threads/:id", onThread(h.delete), r.user)
	r.POST("/api/threads/:id/reset", onThread(h.reset), r.user)
}

// remover deletes threads.
type remover struct {
	calls interface {
		Hangup(ctx context.Context, owner, callID string) error
	}
	chat interface {
		LiveCall(ctx context.Context, key thread.Key) (callID string, err error)
		DeleteSession(ctx context.Context, key thread.Key) error
	}
}

// threadStore is what the routes about threads need of the store.
type threadStore interface {
	CreateThread(ctx context.Context, owner, title string) (persistence.Thread, error)
	threadReader
	Threads(ctx context.Context, owner string, filter persistence.ThreadFilter) ([]persistence.Thread, string, error)
	RenameThread(ctx context.Context, key thread.Key, title string) (persistence.Thread, error)
	ResetThread(ctx context.Context, key thread.Key) error
	SetAssistant(ctx context.Context, key thread.Key, a assistant.Ref, variables map[string]string) (persistence.Thread, error)
	SearchMessages(ctx context.Context, key thread.Key, words []string, limit int) ([]persistence.SearchHit, error)
}

const (
	maxTitle  = 200 // runes
	maxQuery  = 200 // runes of a search
	maxCursor = 512

	maxMatches     = 50  // messages that a search shows a sentence of
	maxSentence    = 160 // runes
	sentenceBefore = 60  // bytes shown before the word that was found
	noThread       = "-" // no thread has this id
)

type threadPage struct {
	Threads    []listedThread `json:"threads"`
	NextCursor *string        `json:"next_cursor"` // null on the last page
}

// listedThread is a thread with what a search has found in it.
type listedThread struct {
	persistence.Thread
	Match string `json:"match,omitempty"`
}

func (h *threads) list(c echo.Context) error {
	limit, err := input.Int(c, "limit", 50, 1, 200)
	if err != nil {
		return err
	}
	filter := persistence.ThreadFilter{Limit: int(limit), Cursor: c.QueryParam("cursor"), Query: c.QueryParam("q")}
	if filter.Cursor != "" && !input.ValidID(filter.Cursor, maxCursor) {
		return problem.BadRequest("invalid_value", "cursor", "cursor does not come from this server.")
	}
	if utf8.RuneCountInString(filter.Query) > maxQuery || !utf8.ValidString(filter.Query) || strings.ContainsRune(filter.Query, 0) {
		return problem.BadRequest("invalid_value", "q", fmt.Sprintf("q must be text of at most %d characters.", maxQuery))
	}
	threads, next, err := h.store.Threads(c.Request().Context(), identity(c).Owner, filter)
	if err != nil {
		return err
	}
	matches, err := h.matches(c.Request().Context(), identity(c).Owner, filter.Query)
	if err != nil {
		return err
	}
	page := threadPage{Threads: make([]listedThread, len(threads))}
	for i, t := range threads {
		page.Threads[i] = listedThread{Thread: t, Match: matches[t.ID]}
	}
	if next != "" {
		page.NextCursor = &next
	}
	return c.JSON(http.StatusOK, page)
}

// matches returns, by thread, the sentence of the message that contains the most words of a query. It has those of the best messages
// only: a thread of which it has none is found all the same.
func (h *threads) matches(ctx context.Context, owner, query string) (map[string]string, error) {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return nil, nil
	}
	hits, err := h.store.SearchMessages(ctx, thread.Key{Owner: owner, Thread: noThread}, words, maxMatches)
	matches := map[string]string{}
	for _, hit := range hits {
		if _, known := matches[hit.ThreadID]; !known {
			matches[hit.ThreadID] = sentenceWith(hit.Text, words)
		}
	}
	return matches, err
}

// sentenceWith returns the first sentence of a text that contains one of the words, in lower case, cut around it if it is long.
func sentenceWith(text string, words []string) string {
	text = strings.Join(strings.Fields(text), " ")
	low := strings.ToLower(text)
	at := len(text)
	for _, w := range words {
		if i := strings.Index(low, w); i >= 0 {
			at = min(at, i)
		}
	}
	if at == len(text) || len(low) != len(text) { // lower case may be longer
		at = 0
	}
	if end := strings.IndexAny(text[at:], ".!?"); end >= 0 {
		text = text[:at+end+1]
	}
	from := max(0, at-sentenceBefore)
	before := ""
	if end := strings.LastIndexAny(text[:at], ".!?"); end >= from {
		from = end + 1
	} else if space := strings.IndexByte(text[from:at], ' '); from > 0 && space >= 0 {
		from, before = from+space, "…"
	}
	runes, after := []rune(strings.ToValidUTF8(text[from:], "")), ""
	if len(runes) > maxSentence {
		runes, after = runes[:maxSentence], "…"
	}
	return before + strings.TrimSpace(string(runes)) + after
}

func (h *threads) create(c echo.Context) error {
	var body struct {
		threadAssistant

		Title string `json:"title"`
	}
	if err := input.JSON(c, &body, true); err != nil {
		return err
	}
	title, err := cleanTitle(body.Title)
	if err != nil {
		return err
	}
	ctx, owner := c.Request().Context(), identity(c).Owner
	chosen, err := h.assistants.check(ctx, owner, body.threadAssistant)
	if err != nil {
		return err
	}
	made, err := h.store.CreateThread(ctx, owner, title)
	if err == nil && body.chosen() {
		made, err = h.assistants.assign(ctx, thread.Key{Owner: owner, Thread: made.ID}, body.threadAssistant, chosen)
	}
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/api/threads/"+made.ID)
	return c.JSON(http.StatusCreated, made)
}

func (h *threads) read(c echo.Context, key thread.Key) error {
	thread, err := h.store.Thread(c.Request().Context(), key)
	if err != nil {
		return orThread(err)
	}
	return c.JSON(http.StatusOK, thread)
}

// change renames a thread, or chooses its assistant.
func (h *threads) change(c echo.Context, key thread.Key) error {
	var body struct {
		threadAssistant

		Title *string `json:"title"`
	}
	if err := input.JSON(c, &body, false); err != nil {
		return err
	}
	if body.Title == nil && !body.chosen() {
		return problem.BadRequest("missing_value", "title", "title is missing.")
	}
	ctx := c.Request().Context()
	changed, err := h.store.Thread(ctx, key)
	if err != nil {
		return orThread(err)
	}
	chosen, err := h.assistants.check(ctx, key.Owner, body.threadAssistant)
	if err != nil {
		return err
	}
	if body.Title != nil {
		title, err := cleanTitle(*body.Title)
		if err != nil {
			return err
		}
		if changed, err = h.store.RenameThread(ctx, key, title); err != nil {
			return orThread(err)
		}
	}
	if body.chosen() {
		if changed, err = h.assistants.assign(ctx, key, body.threadAssistant, chosen); err != nil {
			return orThread(err)
		}
	}
	return c.JSON(http.StatusOK, changed)
}

func (h *threads) delete(c echo.Context, key thread.Key) error {
	if err := h.remove.thread(c.Request().Context(), key); err != nil {
		return orThread(err)
	}
	h.events.note(c, "thread deleted", key.Owner, "thread_id", key.Thread)
	return c.NoContent(http.StatusNoContent)
}

// thread deletes a thread. First it ends the thread's live call and its turn, whose later writes
// would fail.
func (h *remover) thread(ctx context.Context, key thread.Key) error {
	callID, err := h.chat.LiveCall(ctx, key)
	if err != nil {
		return err
	}
	if callID != "" {
		if err := h.calls.Hangup(ctx, key.Owner, callID); err != nil && !errors.Is(err, persistence.ErrNotFound) {
			return err
		}
	}
	return h.chat.DeleteSession(ctx, key)
}

// unused deletes a thread on which nothing was said, unless a call has it: that of a client's second try.
func (h *remover) unused(ctx context.Context, key thread.Key) error {
	callID, err := h.chat.LiveCall(ctx, key)
	if err != nil || callID != "" {
		return err
	}
	return h.chat.DeleteSession(ctx, key)
}

// reset starts a fresh context: later turns and calls no longer see what came before, and neither
// does the live call.
func (h *threads) reset(c echo.Context, key thread.Key) error {
	ctx := c.Request().Context()
	if err := h.store.ResetThread(ctx, key); err != nil {
		return orThread(err)
	}
	if err := h.calls.Forget(ctx, key); err != nil {
		return err
	}
	thread, err := h.store.Thread(ctx, key)
	if err != nil {
		return orThread(err)
	}
	return c.JSON(http.StatusOK, thread)
}

// cleanTitle trims a title and checks it.
func cleanTitle(title string) (string, error) {
	title = strings.TrimSpace(title)
	if utf8.RuneCountInString(title) > maxTitle {
		return "", problem.BadRequest("invalid_value", "title", fmt.Sprintf("title must have at most %d characters.", maxTitle))
	}
	if strings.ContainsFunc(title, unicode.IsControl) {
		return "", problem.BadRequest("invalid_value", "title", "title must be one line of text.")
	}
	return title, nil
}
