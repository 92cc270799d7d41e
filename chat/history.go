package chat

import (
	"cmp"
	"math/bits"
	"slices"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/thread"
)

// Defaults of [HistoryConfig].
const (
	defaultMaxTurns        = 20
	defaultMaxTokens       = 8000
	defaultTrimChunkTokens = 1000
)

// maxReplay is how many messages of a thread are considered for a request, unless HistoryConfig.MaxTurns needs more.
const maxReplay = 400

// HistoryConfig limits how much of a thread a request contains. The zero value means the defaults.
type HistoryConfig struct {
	// How many turns a text model gets.
	//
	// A turn is a user's message with everything that answers it. If there are more, a quarter of MaxTurns is dropped
	// at once, so that the beginning stays the same for some turns.
	MaxTurns int `yaml:"max_turns" default:"20" min:"1" max:"1000"`
	// How many tokens it gets, roughly, besides its instructions.
	//
	// They are estimated at four characters per token, including tool inputs and outputs, without system messages,
	// which all requests have.
	MaxTokens int `yaml:"max_tokens" default:"8000" min:"100" max:"1000000"`
	// How much is cut off at once, so that prompts stay cached.
	TrimChunkTokens int `yaml:"trim_chunk_tokens" default:"1000" min:"1" max:"100000"`

	// tight means that the model has refused a longer request: the last results are cut as earlier ones are.
	tight bool
	// sorts puts the keys of the inputs and outputs of tools in order, since the database does not keep theirs: so a
	// request has the same bytes before and after its messages were saved.
	sorts bool
}

func (h HistoryConfig) withDefaults() HistoryConfig {
	h.MaxTurns = cmp.Or(h.MaxTurns, defaultMaxTurns)
	h.MaxTokens = cmp.Or(h.MaxTokens, defaultMaxTokens)
	h.TrimChunkTokens = cmp.Or(h.TrimChunkTokens, defaultTrimChunkTokens)
	if h.TrimChunkTokens >= h.MaxTokens {
		h.TrimChunkTokens = h.MaxTokens / 4
	}
	return h
}

// replayed returns how many messages of a thread to consider for a request. A turn has two, or three with instructions,
// and alignStart may drop half of them.
func (h HistoryConfig) replayed() int {
	return min(max(maxReplay, 6*h.withDefaults().MaxTurns), persistence.MaxReplay)
}

// Messages turns the messages of a thread since its last reset, oldest first, into the messages of a request to that
// provider.
//
// A call and its result stay together: a call without a result gets one that says so. Interrupted voice answers appear
// as heard. If a request would be too long, whole turns are dropped from the beginning, except their system messages.
// As the thread grows, the beginning stays the same until the next trim.
func (h HistoryConfig) Messages(thread []thread.Message, provider string) []llm.Message {
	kept := h.entries(thread, provider)
	messages := make([]llm.Message, len(kept))
	for i, e := range kept {
		messages[i] = e.Message
	}
	return messages
}

// entries is Messages before images are read.
func (h HistoryConfig) entries(thread []thread.Message, provider string) []entry {
	h = h.withDefaults()
	c := converter{
		provider: provider, ids: map[string]bool{}, maxOutput: h.MaxTokens, tight: h.tight,
		sorts: h.sorts,
	}
	refused := refused(thread)
	for i := range thread {
		if !refused[thread[i].ID] {
			c.message(&thread[i])
		}
	}
	kept := h.trim(c.entries)
	for i, e := range kept {
		// The model may see the last results for the first time, so they are not cut.
		if e.full != "" && e.from == c.lastAssistant {
			kept[i].Content = e.full
		}
	}
	return kept
}

// alignStart drops messages from the beginning of a thread of which only the last are known, so
// that trimming starts at the same message for many turns.
func alignStart(messages []thread.Message) []thread.Message {
	if len(messages) < 2 {
		return messages
	}
	first, last := messages[0].Seq, messages[len(messages)-1].Seq
	if last-first < 2 {
		return messages
	}
	step := int64(1) << (bits.Len64(uint64(last-first)/2) - 1)
	from := (first + step - 1) / step * step
	i := slices.IndexFunc(messages, func(m thread.Message) bool { return m.Seq >= from })
	return messages[i:]
}

// answersTo returns the answers to a user's message: those that name it and, of those that name none, as in calls, the
// ones right after it that its own call has given.
func answersTo(messages []thread.Message, id string) (answers []thread.Message) {
	var before thread.Message
	for _, m := range messages {
		named := extraText(&m, extraAnswers)
		switch {
		case m.Role != thread.RoleAssistant:
			before = m
		case named == id, named == "" && before.ID == id && before.Metadata.CallID == m.Metadata.CallID:
			answers = append(answers, m)
		}
	}
	return answers
}

// refused returns the ids of answers that a provider has refused to give, and of the messages that they answer. With
// these in it, every later request would be refused, too.
func refused(thread []thread.Message) map[string]bool {
	ids := map[string]bool{}
	for i := range thread {
		if m := &thread[i]; string(m.Metadata.Extra[extraRefused]) == "true" && !m.IsDiscarded() {
			ids[m.ID], ids[extraText(m, extraAnswers)] = true, true
		}
	}
	delete(ids, "") // what a call asks is no message, and has no id
	return ids
}

// since returns a message and all that follow it; none if the thread does not have it.
func since(messages []thread.Message, id string) []thread.Message {
	begin := slices.IndexFunc(messages, func(m thread.Message) bool { return m.ID == id })
	if begin < 0 {
		return nil
	}
	return messages[begin:]
}

// withoutOpenCalls removes the tool calls without a result: they are running while a call's question is answered, and
// one of them asks it.
func withoutOpenCalls(messages []thread.Message) []thread.Message {
	kept := slices.Clone(messages)
	for i := range kept {
		kept[i].Parts = slices.DeleteFunc(slices.Clone(kept[i].Parts), func(p thread.Part) bool {
			return p.IsTool() && p.State == thread.ToolInputAvailable
		})
	}
	return kept
}

// unit is what is trimmed at once: a turn.
type unit struct {
	start   int
	opening int // tokens of what the user says
	rest    int // tokens of the answer
	// more is how many more tokens the last message of the answer takes while it is the last,
	// because its outputs are not cut then.
	more   int
	answer *thread.Message
}

// units finds the turns.
func units(all []entry) []unit {
	var found []unit
	asked, answered := true, true // of the unit so far; true so that the first message begins one
	for i, e := range all {
		begins := e.Role == llm.RoleUser && (asked || answered) || e.Role == llm.RoleSystem && answered
		if begins || len(found) == 0 {
			found = append(found, unit{start: i})
			asked, answered = false, false
		}
		u := &found[len(found)-1]
		switch e.Role {
		case llm.RoleUser:
			asked = true
			u.opening += e.tokens()
		case llm.RoleSystem: // stays, whatever its size
		case llm.RoleAssistant, llm.RoleTool:
			answered = true
			u.rest += e.tokens()
			if e.from != u.answer {
				u.answer, u.more = e.from, 0
			}
			if e.full != "" {
				u.more += llm.Tokens(llm.Message{Content: e.full}) - e.tokens()
			}
		}
	}
	return found
}

// trim drops turns. It repeats the decisions of the earlier turns one by one, so that each turn
// arrives at the same beginning as the one before, unless it has to trim itself.
func (h HistoryConfig) trim(all []entry) []entry {
	turns := units(all)
	start, total := 0, 0
	answered := 0
	for n, u := range turns {
		total += u.opening
		tokens, count := h.MaxTokens, h.MaxTurns
		size := func() int {
			if start <= answered && answered < n {
				return total + turns[answered].more
			}
			return total
		}
		if size() > tokens {
			tokens -= h.TrimChunkTokens
		}
		if n+1-start > count {
			count -= count / 4
		}
		for start < n && (size() > tokens || n+1-start > count) {
			total -= turns[start].opening + turns[start].rest
			start++
		}
		total += u.rest
		if u.answer != nil {
			answered = n
		}
	}
	if start == 0 {
		return all
	}
	var kept []entry
	for _, e := range all[:turns[start].start] {
		if e.Role == llm.RoleSystem {
			kept = append(kept, e)
		}
	}
	return append(kept, all[turns[start].start:]...)
}
