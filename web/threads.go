package web

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// threads serves the routes about threads.
type threads struct{ *api }

func (h threads) routes(r router) {
	r.explain = orThread
	route(r, "GET /api/threads", h.list)
	route(r, "POST /api/threads", h.create, r.text, r.thread)
	route(r, "GET /api/threads/:id", h.read)
	route(r, "PATCH /api/threads/:id", h.change)
	route(r.passing(), "DELETE /api/threads/:id", h.delete)
	route(r.passing(), "POST /api/threads/:id/reset", h.reset)
	route(r, "GET /api/threads/:id/calls", h.callsOf)
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
	// Match is the sentence with the words, in the result of a search, where one of the best messages is of this
	// thread.
	Match string `json:"match,omitempty"`
}

type threadSearch struct {
	Limit  int64  `query:"limit" range:"50,1,200"`
	Cursor string `query:"cursor"`
	Query  string `query:"q"`
}

func (h threads) list(ctx context.Context, who caller, in threadSearch) (page threadPage, err error) {
	if in.Cursor != "" && !input.ValidID(in.Cursor, maxCursor) {
		return page, problem.Invalid("cursor", "cursor does not come from this server.")
	}
	if utf8.RuneCountInString(in.Query) > maxQuery || !utf8.ValidString(in.Query) || strings.ContainsRune(in.Query, 0) {
		return page, problem.Invalid("q", "q must be text of at most %d characters.", maxQuery)
	}
	filter := persistence.ThreadFilter{Limit: int(in.Limit), Cursor: in.Cursor, Query: in.Query}
	threads, next, err := h.Store.Threads(ctx, who.Owner, filter)
	if err != nil {
		return page, err
	}
	matches, err := h.matches(ctx, who.Owner, in.Query)
	page.Threads = make([]listedThread, len(threads))
	for i, t := range threads {
		page.Threads[i] = listedThread{Thread: t, Match: matches[t.ID]}
	}
	if next != "" {
		page.NextCursor = &next
	}
	return page, err
}

// matches returns, by thread, the sentence of the message that contains the most words of a query. It has those of
// the best messages only: a thread of which it has none is found all the same.
func (h threads) matches(ctx context.Context, owner, query string) (map[string]string, error) {
	words := strings.Fields(query)
	if len(words) == 0 {
		return nil, nil
	}
	hits, err := h.Store.SearchMessages(ctx, thread.Key{Owner: owner, Thread: noThread}, words, maxMatches)
	matches := map[string]string{}
	for _, hit := range hits {
		if _, known := matches[hit.ThreadID]; !known {
			matches[hit.ThreadID] = sentenceWith(hit.Text, words)
		}
	}
	return matches, err
}

// sentenceEnds end sentences, in the scripts that have such signs.
const sentenceEnds = ".!?。！？؟।"

// sentenceWith returns the first sentence of a text that contains one of the words, cut around it if it is long.
func sentenceWith(text string, words []string) string {
	text = strings.Join(strings.Fields(text), " ")
	at := max(0, persistence.FirstMatch(text, words))
	if end := strings.IndexAny(text[at:], sentenceEnds); end >= 0 {
		_, size := utf8.DecodeRuneInString(text[at+end:])
		text = text[:at+end+size]
	}
	from := max(0, at-sentenceBefore)
	before := ""
	if end := strings.LastIndexAny(text[:at], sentenceEnds); end >= from {
		_, size := utf8.DecodeRuneInString(text[end:])
		from = end + size
	} else if space := strings.IndexByte(text[from:at], ' '); from > 0 && space >= 0 {
		from, before = from+space, "…"
	}
	runes, after := []rune(strings.ToValidUTF8(text[from:], "")), ""
	if len(runes) > maxSentence {
		runes, after = runes[:maxSentence], "…"
	}
	return before + strings.TrimSpace(string(runes)) + after
}

type newThread struct {
	Body struct {
		threadAssistant

		Title string `json:"title"`
	} `body:"64 KiB,optional"`
}

func (h threads) create(ctx context.Context, who caller, in newThread) (made reply[persistence.Thread], err error) {
	title, err := cleanTitle(in.Body.Title)
	if err != nil {
		return made, err
	}
	chosen, err := h.checkChoice(ctx, who.Owner, in.Body.threadAssistant)
	if err != nil {
		return made, err
	}
	t, err := h.Store.CreateThread(ctx, who.Owner, title)
	if err == nil && in.Body.chosen() {
		t, err = h.assign(ctx, thread.Key{Owner: who.Owner, Thread: t.ID}, in.Body.threadAssistant, chosen)
	}
	return created("/api/threads/"+t.ID, t), err
}

// oneThread is the input of routes about a thread.
type oneThread struct{ Key thread.Key }

func (h threads) read(ctx context.Context, _ caller, in oneThread) (persistence.Thread, error) {
	return h.Store.Thread(ctx, in.Key)
}

type changedThread struct {
	Key  thread.Key
	Body struct {
		threadAssistant

		Title *string `json:"title"`
	} `body:"64 KiB"`
}

// change renames a thread, or chooses its assistant.
func (h threads) change(ctx context.Context, _ caller, in changedThread) (changed persistence.Thread, err error) {
	if in.Body.Title == nil && !in.Body.chosen() {
		return changed, problem.BadRequest("missing_value", "title", "title is missing.")
	}
	if changed, err = h.Store.Thread(ctx, in.Key); err != nil {
		return changed, err
	}
	chosen, err := h.checkChoice(ctx, in.Key.Owner, in.Body.threadAssistant)
	if err != nil {
		return changed, err
	}
	if in.Body.Title != nil {
		title, err := cleanTitle(*in.Body.Title)
		if err != nil {
			return changed, err
		}
		if changed, err = h.Store.RenameThread(ctx, in.Key, title); err != nil {
			return changed, err
		}
	}
	if in.Body.chosen() {
		return h.assign(ctx, in.Key, in.Body.threadAssistant, chosen)
	}
	return changed, nil
}

func (h threads) delete(ctx context.Context, who caller, in oneThread) (none, error) {
	err := h.removeThread(ctx, in.Key)
	if err == nil {
		h.events.note(who, "thread deleted", "thread_id", in.Key.Thread)
	}
	return none{}, err
}

// removeThread deletes a thread. First it ends the thread's live call and its turn, whose later writes
// would fail.
func (a *api) removeThread(ctx context.Context, key thread.Key) error {
	callID, err := a.Chat.LiveCall(ctx, key)
	if err != nil {
		return err
	}
	if callID != "" {
		if err := a.Calls.Hangup(ctx, key.Owner, callID); err != nil && !errors.Is(err, persistence.ErrNotFound) {
			return err
		}
	}
	return a.Chat.DeleteSession(ctx, key)
}

// removeUnused deletes a thread on which nothing was said, unless a call has it: that of a client's second try.
func (a *api) removeUnused(ctx context.Context, key thread.Key) error {
	callID, err := a.Chat.LiveCall(ctx, key)
	if err != nil || callID != "" {
		return err
	}
	return a.Chat.DeleteSession(ctx, key)
}

// reset starts a fresh context: later turns and calls no longer see what came before, and neither
// does the live call.
func (h threads) reset(ctx context.Context, _ caller, in oneThread) (persistence.Thread, error) {
	err := h.Store.ResetThread(ctx, in.Key)
	if err != nil {
		return persistence.Thread{}, err
	}
	h.Calls.Forget(in.Key)
	return h.Store.Thread(ctx, in.Key)
}

// cleanTitle trims a title and checks it.
func cleanTitle(title string) (string, error) {
	title = strings.TrimSpace(title)
	if utf8.RuneCountInString(title) > maxTitle {
		return "", problem.Invalid("title", "title must have at most %d characters.", maxTitle)
	}
	if strings.ContainsFunc(title, unicode.IsControl) {
		return "", problem.Invalid("title", "title must be one line of text.")
	}
	return title, nil
}

type callAnswer struct {
	CallID      string `json:"call_id"`
	Upstream    string `json:"upstream"`
	Model       string `json:"model"`
	Voice       string `json:"voice"`
	AssistantID string `json:"assistant_id,omitempty"`
	// Caller is the number of who is not the assistant, in a call by telephone.
	Caller    string    `json:"caller,omitempty"`
	StartedAt time.Time `json:"started_at"`
	// ReadyAt is when the caller was first heard.
	ReadyAt       *time.Time `json:"ready_at"`
	EndedAt       *time.Time `json:"ended_at"`
	EndReason     string     `json:"end_reason,omitempty"`
	Turns         int64      `json:"turns"`
	Interruptions int64      `json:"interruptions"`
	// CostUSD is what its models have cost, in US dollars; null while no price is known.
	CostUSD *float64 `json:"cost_usd"`
	// Extraction is missing if nobody reads the call after its end.
	Extraction records.Extraction `json:"extraction,omitempty"`
	// ExtractionError says why nothing was found.
	ExtractionError string `json:"extraction_error,omitempty"`
	// Summary is one paragraph.
	Summary string `json:"summary,omitempty"`
	// Extracted fits the assistant's schema.
	Extracted json.RawMessage `json:"extracted,omitempty"`
}

type callList struct {
	Calls []callAnswer `json:"calls"`
}

// callsOf returns the calls of a thread, the oldest first.
func (h threads) callsOf(ctx context.Context, _ caller, in oneThread) (answer callList, err error) {
	if _, err := h.Store.Thread(ctx, in.Key); err != nil {
		return answer, err
	}
	calls, err := h.Store.Records.Calls(ctx, in.Key)
	answer.Calls = make([]callAnswer, 0, len(calls))
	for _, r := range calls {
		answer.Calls = append(answer.Calls, callAnswer{
			CallID: r.ID, Upstream: r.Upstream, Model: r.Model, Voice: r.Voice, AssistantID: r.AssistantID, Caller: r.Caller,
			StartedAt: r.StartedAt, ReadyAt: r.ReadyAt, EndedAt: r.EndedAt, EndReason: r.EndReason,
			Turns: r.Turns, Interruptions: r.Interruptions, CostUSD: r.CostUSD,
			Extraction: r.Extraction, ExtractionError: r.ExtractionError, Summary: r.Summary, Extracted: r.Extracted,
		})
	}
	return answer, err
}
