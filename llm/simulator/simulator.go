// Package simulator is a text provider that needs no key: it answers by a script, the same every
// time. Asked for a chart, a theme, a tool or a story, it does what a model would do with the
// available tools.
package simulator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"voicebridge/llm"
)

// Model is the name of its model.
const Model = "simulator-1"

// Config configures a [Provider]. The zero value is useful.
type Config struct {
	// Pace is the pause before each word, so that users can watch and interrupt an answer; 0 for
	// none.
	Pace time.Duration
	// TitlePrompt and ShortTitlePrompt are the system prompts whose answers are the title of a
	// conversation and of one message; empty for none.
	TitlePrompt, ShortTitlePrompt string
}

// Provider is an [llm.Provider] that answers by a script. It is safe for concurrent use.
type Provider struct{ config Config }

// New returns a provider.
func New(config Config) *Provider { return &Provider{config: config} }

func (p *Provider) Name() string { return Name }

// Stream implements [llm.Provider]. Usage is estimated at four characters per token.
func (p *Provider) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		r := p.answer(req)
		if r.err != nil {
			yield(llm.Delta{}, r.err)
			return
		}
		text, stop := limit(r.text, req.MaxTokens)
		for _, word := range strings.SplitAfter(text, " ") {
			if word == "" {
				continue
			}
			if err := p.wait(ctx); err != nil {
				yield(llm.Delta{}, err)
				return
			}
			if !yield(llm.Delta{Text: word}, nil) {
				return
			}
		}
		if stop == llm.StopEnd && len(r.calls) > 0 {
			stop = llm.StopToolCalls
			for i := range r.calls {
				r.calls[i].ID = callID(req, i)
				if !yield(llm.Delta{ToolCall: &r.calls[i]}, nil) {
					return
				}
			}
		}
		yield(llm.Delta{Usage: count(req, text, r.calls), Stop: stop}, nil)
	}
}

func (p *Provider) wait(ctx context.Context) error {
	if p.config.Pace == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(p.config.Pace):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// limit cuts an answer after a number of tokens, four characters each.
func limit(text string, tokens int) (string, llm.StopReason) {
	if tokens <= 0 || utf8.RuneCountInString(text) <= 4*tokens {
		return text, llm.StopEnd
	}
	return string([]rune(text)[:4*tokens]), llm.StopLength
}

// callID is the same for the same conversation, and differs for the next one.
func callID(req llm.Request, n int) string {
	h := fnv.New64a()
	for _, m := range req.Messages {
		fmt.Fprintf(h, "%s %s %d\n", m.Role, m.ToolCallID, len(m.Content))
	}
	return fmt.Sprintf("call_%016x_%d", h.Sum64(), n)
}

// count estimates the usage at four characters per token.
func count(req llm.Request, text string, calls []llm.ToolCall) *llm.Usage {
	in, out := utf8.RuneCountInString(req.System), utf8.RuneCountInString(text)
	for _, m := range req.Messages {
		in += utf8.RuneCountInString(m.Content)
		for _, c := range m.ToolCalls {
			in += len(c.Arguments)
		}
	}
	for _, c := range calls {
		out += len(c.Arguments)
	}
	u := &llm.Usage{InputTokens: int64(in+3) / 4, OutputTokens: int64(out+3) / 4}
	u.Raw = json.RawMessage(fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d}`, u.InputTokens, u.OutputTokens))
	return u
}

// answer finds the reply to the last message.
func (p *Provider) answer(req llm.Request) reply {
	switch req.System {
	case "": // an empty prompt never asks for a title
	case p.config.TitlePrompt:
		return reply{text: title(req.Messages)}
	case p.config.ShortTitlePrompt:
		return reply{text: shortTitle(req.Messages)}
	}
	if len(req.Schema) > 0 {
		return reply{text: fitting(req.Schema)}
	}
	if len(req.Messages) == 0 {
		return reply{text: textPlain}
	}
	said := req.Messages // without the instructions at the end, with which an app asks for the answer after its tools
	for len(said) > 1 && said[len(said)-1].Role == llm.RoleSystem {
		said = said[:len(said)-1]
	}
	if said[len(said)-1].Role == llm.RoleTool {
		return afterTools(said)
	}
	asked, earlier := questions(req.Messages)
	start := asked[:min(len(asked), maxMatched)]
	for _, rule := range rules {
		m := rule.match.FindStringSubmatch(start)
		if m == nil {
			continue
		}
		if r, ok := rule.reply(situation{tools: req.Tools, words: m, earlier: earlier}); ok {
			return r
		}
	}
	return reply{text: textTyped}
}

// afterTools says how the calls of the last step went.
func afterTools(messages []llm.Message) reply {
	texts := map[bool]string{true: textToolFailed, false: textToolDone}
	i := len(messages)
	failed := false
	for ; i > 0 && messages[i-1].Role == llm.RoleTool; i-- {
		m := messages[i-1]
		failed = failed || m.Failed
		if strings.Contains(m.ToolName, "chart") {
			texts = map[bool]string{true: textChartFailed, false: textChartDone}
		} else if m.ToolName == themeTool {
			texts[false] = textThemeDone
		}
	}
	return reply{text: texts[failed]}
}

// maxMatched is how many bytes of a text the rules look at: a regular expression takes long in a long text.
const maxMatched = 32 << 10

var contextNote = regexp.MustCompile(`(?s)^\[CONTEXT:.*?\]\s*`)

// questions returns the user's last text, without the context before it, and those before.
func questions(messages []llm.Message) (last, earlier string) {
	for _, m := range slices.Backward(messages) {
		if m.Role != llm.RoleUser {
			continue
		}
		text := contextNote.ReplaceAllString(m.Content, "")
		if last != "" {
			return last, text
		}
		last = text
	}
	return last, ""
}

// title returns the user's first words as the title of a conversation.
func title(messages []llm.Message) string {
	if words := firstWords(messages, 4); words != "" {
		return "About: " + words
	}
	return "A conversation"
}

// shortTitle returns the user's first words as the title of one message.
func shortTitle(messages []llm.Message) string {
	return cmp.Or(firstWords(messages, 3), "A message")
}

// firstWords returns at most limit words of the first line that the title prompt marks as the user's.
func firstWords(messages []llm.Message, limit int) string {
	for _, m := range messages {
		for line := range strings.Lines(m.Content) {
			if words, ok := strings.CutPrefix(strings.TrimSpace(line), "user: "); ok {
				f := strings.Fields(strings.Trim(words, "?!. "))
				return strings.Join(f[:min(len(f), limit)], " ")
			}
		}
	}
	return ""
}
