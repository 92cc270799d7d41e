package chat

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

const (
	// maxTitleJobs is how many threads may wait for a title.
	maxTitleJobs = 100
	titleTimeout = 30 * time.Second
	titleTokens  = 4000 // reasoning models need room for that, too
	titleTries   = 3    // of one thread

	localTitleWords = 6
	maxTitleRunes   = 60
	titleReadRunes  = 1000 // of each message, as read by the model
	titleReads      = 6    // messages

	maxTitleAnswer = 4096 // bytes
)

// TitleInstructions is the system prompt of a request for a thread's title.
const TitleInstructions = "Give this conversation a title of two to six words, in the language of the conversation. " +
	"Answer with the title alone: no quotation marks, no full stop, no explanation."

// ShortTitleInstructions is the system prompt of a request for a queued message's title.
const ShortTitleInstructions = "Give this message a title of two or three words, in the language of the message. " +
	"Answer with the title alone: no quotation marks, no full stop, no explanation."

// titles names threads: at once by their first words, and by the model after the first exchange. A single worker asks
// the model, so that providers never get many such requests at once.
type titles struct {
	cfg  *Config
	jobs chan thread.Key

	mu    sync.Mutex
	asked map[thread.Key]bool // those waiting in jobs

	// The rest belongs to run.

	tries map[named]int
	// silent is the number up to which the user says nothing, so that it is not read again.
	silent map[named]int64
}

// named is a thread that may get a title. One that is deleted and made again with the same id is another.
type named struct {
	thread.Key
	made int64 // when, in microseconds
}

func newTitles(cfg *Config) *titles {
	return &titles{
		cfg: cfg, jobs: make(chan thread.Key, maxTitleJobs),
		asked: map[thread.Key]bool{}, tries: map[named]int{}, silent: map[named]int64{},
	}
}

// ask makes the worker handle a thread soon.
func (w *titles) ask(key thread.Key) {
	if w.cfg.NoTitles {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked[key] {
		return
	}
	select {
	case w.jobs <- key:
		w.asked[key] = true
	default:
		w.cfg.Logger.Warn("too many threads wait for a title", "thread_id", key.Thread)
	}
}

// run gives titles until ctx ends.
func (w *titles) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case key := <-w.jobs:
			w.mu.Lock()
			delete(w.asked, key)
			w.mu.Unlock()
			w.name(ctx, key)
		}
	}
}

// fromWords gives a thread the title that needs no model.
func (w *titles) fromWords(key thread.Key, text string) {
	title := localTitle(text)
	if w.cfg.NoTitles || title == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), titleTimeout)
	defer cancel()
	w.suggest(ctx, key, title, persistence.TitleByWords)
}

func (w *titles) suggest(ctx context.Context, key thread.Key, title string, by persistence.TitleBy) {
	changed, err := w.cfg.Store.SuggestTitle(ctx, key, title, by)
	if err != nil {
		w.cfg.Logger.Warn("title not saved", "thread_id", key.Thread, "error", err)
	}
	if changed {
		w.cfg.Store.Publish(ctx, key,
			persistence.Event{Type: "thread_titled", Data: toolkit.Encode(map[string]string{"title": title})})
	}
}

// name gives a thread the titles that it lacks.
func (w *titles) name(ctx context.Context, key thread.Key) {
	ctx, cancel := context.WithTimeout(ctx, titleTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			w.cfg.Logger.Error("naming a thread panicked", "thread_id", key.Thread, "panic", fmt.Sprint(p))
		}
	}()
	row, err := w.cfg.Store.Thread(ctx, key)
	of := named{key, row.CreatedAt.UnixMicro()}
	if err != nil || row.TitleBy == persistence.TitleByUser || row.TitleBy == persistence.TitleByModel ||
		w.tries[of] >= titleTries {
		return
	}
	start, err := w.exchange(ctx, of)
	if err != nil {
		w.cfg.Logger.Warn("no title", "thread_id", key.Thread, "error", err)
		return
	}
	if row.TitleBy == persistence.TitleByNobody && len(start) > 0 {
		w.suggest(ctx, key, localTitle(start[0].Text()), persistence.TitleByWords)
	}
	if !slices.ContainsFunc(start, func(m thread.Message) bool { return m.Role == thread.RoleAssistant }) {
		return
	}
	title, err := w.think(ctx, key, start)
	if err != nil {
		w.cfg.Logger.Warn("no title", "thread_id", key.Thread, "error", err)
		w.failed(ctx, of)
		return
	}
	w.suggest(ctx, key, title, persistence.TitleByModel)
}

// failed counts a failure, unless the server is stopping. After titleTries, the title from words stays.
func (w *titles) failed(ctx context.Context, of named) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	if len(w.tries) >= 10*maxTitleJobs {
		clear(w.tries)
	}
	w.tries[of]++
}

// exchange returns the first messages that have text, from the user's first words on.
func (w *titles) exchange(ctx context.Context, of named) (start []thread.Message, err error) {
	silent := w.silent[of]
	messages, err := w.cfg.Store.Messages(ctx, of.Key, silent, 50)
	if err != nil {
		return nil, err
	}
	growing := false
	for _, m := range messages {
		growing = growing || m.Metadata.Status == thread.StatusInProgress
		hasText := m.Role != thread.RoleSystem && m.Metadata.Status != thread.StatusInProgress &&
			strings.TrimSpace(m.Text()) != "" && !m.IsNotice()
		if hasText && (len(start) > 0 || m.Role == thread.RoleUser && localTitle(m.Text()) != "") {
			start = append(start, m)
		}
		if len(start) == titleReads {
			break
		}
		if len(start) == 0 && !growing {
			silent = m.Seq
		}
	}
	if len(w.silent) >= 10*maxTitleJobs {
		clear(w.silent)
	}
	if silent > 0 {
		w.silent[of] = silent
	}
	return start, nil
}

// think asks the model for a title.
func (w *titles) think(ctx context.Context, key thread.Key, start []thread.Message) (string, error) {
	var b strings.Builder
	for _, m := range start {
		fmt.Fprintf(&b, "%s: %s\n", m.Role, cutRunes(strings.Join(strings.Fields(m.Text()), " "), titleReadRunes))
	}
	return w.cfg.title(ctx, key, TitleInstructions, b.String())
}

// title is [Coordinator.Title].
func (c *Config) title(ctx context.Context, key thread.Key, instructions, text string) (string, error) {
	c, err := c.of(ctx, key, "")
	if err != nil {
		return "", err
	}
	m, err := c.model(ctx, &TurnRequest{Key: key})
	if err != nil {
		return "", err
	}
	answer, err := c.ask(ctx, key, m.provider, records.Response{Kind: records.KindTitle}, llm.Request{
		Model: m.request.Model, System: instructions, Messages: []llm.Message{{Role: llm.RoleUser, Content: text}},
		MaxTokens: titleTokens,
	}, maxTitleAnswer)
	if err != nil {
		return "", fmt.Errorf("ask for a title: %w", err)
	}
	title := cleanTitle(answer)
	if title == "" {
		return "", errors.New("ask for a title: the model gave none")
	}
	return title, nil
}

var (
	titleURL   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)|\S+://\S+`)
	titleCode  = regexp.MustCompile("(?s)```.*?(```|$)")
	titleMarks = regexp.MustCompile("[*_`~|]+|(^|\\s)[#>]+\\s")
)

// localTitle returns the first words of a text, without markup; empty if it has no words.
func localTitle(text string) string {
	text = cutRunes(strings.ToValidUTF8(text, ""), 2000)
	text = titleCode.ReplaceAllString(text, " ")
	text = titleURL.ReplaceAllString(text, " $1 ")
	words := strings.Fields(titleMarks.ReplaceAllString(text, " "))
	cut := len(words) > localTitleWords
	title := strings.Join(words[:min(len(words), localTitleWords)], " ")
	if !strings.ContainsFunc(title, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
		return ""
	}
	if cut {
		title = strings.TrimRight(title, ".,;:-!?") + "…"
	}
	return shortTitle(title)
}

func isQuote(r rune) bool { return unicode.Is(unicode.Quotation_Mark, r) }

// cleanTitle removes what models add to a title.
func cleanTitle(text string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			continue
		}
		line = titleMarks.ReplaceAllString(strings.ToValidUTF8(line, ""), "")
		line = strings.TrimSpace(line)
		for _, prefix := range []string{"Title:", "title:"} {
			line = strings.TrimSpace(strings.TrimPrefix(line, prefix))
		}
		line = strings.TrimRight(strings.TrimFunc(line, isQuote), ".")
		if line = strings.TrimSpace(line); line != "" {
			return shortTitle(line)
		}
	}
	return ""
}

// shortTitle cuts a title between characters.
func shortTitle(title string) string {
	if toolkit.First(title, maxTitleRunes) == title {
		return title
	}
	return strings.TrimSpace(toolkit.First(title, maxTitleRunes-1)) + "…"
}
