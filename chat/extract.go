package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/extractions"
	"voicebridge/persistence/records"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

const (
	// extractEvery is how often to look for calls that another process has left. A call that ends here is read at once.
	extractEvery   = 5 * time.Second
	extractTimeout = 3 * time.Minute
	extractTokens  = 16_000 // reasoning models need room for that, too
	// maxExtractRead limits the text of a call that is read, in characters: of a longer one, the end.
	maxExtractRead = 200_000
	maxToolRead    = 4000 // characters of a tool's arguments or result
	maxExtracted   = 256 << 10
	maxSummary     = 4000 // characters
	callPage       = 500  // messages
	saveAgain      = time.Second
	// maxExtracting is how many calls are read at once, of different owners.
	maxExtracting = 8
)

// ExtractInstructions is the system prompt of a request to read a call.
const ExtractInstructions = "You read the record of a call that has ended. What the assistant said is only what " +
	"the user heard. Answer with one JSON object that fits the schema and nothing else. \"summary\" is one " +
	"paragraph about the call, in its language. \"extracted\" has what its schema asks for, taken from the call " +
	"alone: invent nothing."

// extractor reads calls of assistants with a schema, once they have ended: one of an owner at a time, as it is
// never urgent, so that none of them holds up the others'.
type extractor struct {
	cfg  *Config
	wake chan struct{}
}

func newExtractor(cfg *Config) *extractor { return &extractor{cfg, make(chan struct{}, 1)} }

// look has the extractor look for calls that have ended.
func (x *extractor) look() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

func (x *extractor) run(ctx context.Context) {
	tick := time.NewTicker(extractEvery)
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	done := make(chan struct{}, maxExtracting)
	running, failed := 0, false
	for {
		// After a failure it is not certain that nothing was claimed: that is found once nothing runs.
		for more := running == 0 || !failed; more && running < maxExtracting && ctx.Err() == nil; {
			claim, ok, err := x.cfg.Store.Extractions.Claim(ctx, running == 0)
			if err != nil && !failed && ctx.Err() == nil && !errors.Is(err, persistence.ErrUnavailable) {
				x.cfg.Logger.Warn("calls to read not looked for", "error", err)
			}
			failed, more = err != nil, ok
			if ok {
				running++
				all.Go(func() {
					x.handle(ctx, claim)
					done <- struct{}{}
				})
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-x.wake:
		case <-tick.C:
		case <-done:
			running--
		}
	}
}

// handle reads a call and saves the result. While the database is away it tries again: if the process stops before, or
// is taken for dead, another one reads the call once more.
func (x *extractor) handle(ctx context.Context, claim extractions.Claim) {
	log := x.cfg.Logger.With("call_id", claim.CallID, "thread_id", claim.Key.Thread)
	result, err := x.read(ctx, claim)
	if ctx.Err() != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveAgain)
		defer cancel()
		if err := x.cfg.Store.Extractions.GiveBack(end, claim); err != nil {
			log.Info("call left to other processes to read", "error", err)
		}
		return
	}
	state := records.ExtractionDone
	save := func() error {
		if err == nil {
			_, saved := x.cfg.Store.Extractions.Done(ctx, claim, result)
			return saved
		}
		again, saved := x.cfg.Store.Extractions.Failed(ctx, claim, plainReason(err), errors.As(err, new(hopeless)))
		if saved == nil {
			log.Warn("call not read", "attempt", claim.Attempt, "again", again, "error", err)
		}
		if state = records.ExtractionFailed; again {
			state = records.ExtractionWaiting
		}
		return saved
	}
	for {
		saved := save()
		if saved == nil && state != records.ExtractionWaiting {
			x.cfg.Store.Publish(ctx, claim.Key, persistence.Event{
				Type: "call_extracted",
				Data: toolkit.Encode(map[string]any{"call_id": claim.CallID, "extraction": state}),
			})
		}
		if saved == nil || errors.Is(saved, persistence.ErrFenced) || errors.Is(saved, persistence.ErrClosed) {
			return
		}
		log.Debug("what was found in a call not saved yet", "error", saved)
		select {
		case <-time.After(saveAgain):
		case <-ctx.Done():
			return
		}
	}
}

// hopeless is a failure that another attempt does not mend.
type hopeless string

func (h hopeless) Error() string { return string(h) }

// plainReason returns a failure in words for the call's owner.
func plainReason(err error) string {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

func (x *extractor) read(ctx context.Context, claim extractions.Claim) (result extractions.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, extractTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			x.cfg.Logger.Error("reading a call panicked", "call_id", claim.CallID, "panic", fmt.Sprint(p))
			err = hopeless("the call could not be read")
		}
	}()
	a, err := x.cfg.Store.Assistants.Get(ctx, claim.Key.Owner, claim.Assistant)
	if errors.Is(err, persistence.ErrNotFound) || err == nil && len(a.Extract) == 0 {
		return result, hopeless("the assistant no longer says what to find")
	}
	if err != nil {
		return result, err
	}
	if err := toolkit.CheckParameters(a.Extract); err != nil {
		return result, hopeless("extract: " + err.Error())
	}
	said, err := x.said(ctx, claim)
	if err != nil {
		return result, err
	}
	if said == "" {
		return result, hopeless("nothing was said")
	}
	cfg := x.cfg.with(a)
	provider, err := cfg.provider(cfg.Provider)
	if err != nil {
		return result, err
	}
	schema := extractSchema(a.Extract)
	req := llm.Request{
		Model: cfg.Models[cfg.Provider], System: ExtractInstructions + "\n\nThe schema:\n" + string(schema),
		Schema: schema, MaxTokens: extractTokens,
		Messages: []llm.Message{{Role: llm.RoleUser, Content: said}},
	}
	record := records.Response{Kind: records.KindExtraction, CallID: claim.CallID}
	answer, err := cfg.ask(ctx, claim.Key, provider, record, req, maxExtracted)
	if e, ok := errors.AsType[*llm.Error](err); ok && e.Kind == llm.KindBadRequest { // it may be the schema
		req.Schema = nil
		answer, err = cfg.ask(ctx, claim.Key, provider, record, req, maxExtracted)
	}
	if err != nil {
		return result, err
	}
	result, wrong := parseExtracted(answer, a.Extract)
	if wrong == nil {
		return result, nil
	}
	req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Content: answer},
		llm.Message{
			Role:    llm.RoleUser,
			Content: "That does not fit: " + wrong.Error() + ". Answer with the whole object once more, corrected.",
		})
	if answer, err = cfg.ask(ctx, claim.Key, provider, record, req, maxExtracted); err != nil {
		return result, err
	}
	if result, wrong = parseExtracted(answer, a.Extract); wrong != nil {
		return result, fmt.Errorf("the model's answer does not fit the schema: %w", wrong)
	}
	return result, nil
}

// said returns what was said in a call, as heard, with the tools' results.
func (x *extractor) said(ctx context.Context, claim extractions.Claim) (string, error) {
	var b strings.Builder
	for after := int64(0); ; {
		messages, err := x.cfg.Store.CallMessages(ctx, claim.Key, claim.CallID, after, callPage)
		if err != nil {
			return "", err
		}
		for i := range messages {
			after = messages[i].Seq
			writeSaid(&b, &messages[i])
		}
		if len(messages) < callPage {
			break
		}
	}
	text := strings.TrimSpace(b.String())
	if runes := []rune(text); len(runes) > maxExtractRead {
		text = "(The beginning is left out.)\n" + string(runes[len(runes)-maxExtractRead:])
	}
	return text, nil
}

// speakers are how those who say something are called in the record of a call.
var speakers = map[thread.Role]string{
	thread.RoleUser: "User", thread.RoleAssistant: "Assistant", thread.RoleSystem: "Instruction",
}

func writeSaid(b *strings.Builder, m *thread.Message) {
	if m.IsDiscarded() {
		return
	}
	heard := thread.NewHeardText(m)
	for i := range m.Parts {
		p := &m.Parts[i]
		switch {
		case p.Type == "text":
			text := p.Text
			if m.Role == thread.RoleAssistant {
				text = heard.Next(p.Text)
			}
			if text = strings.TrimSpace(text); text != "" && !m.IsNotice() {
				fmt.Fprintf(b, "%s: %s\n", speakers[m.Role], text)
			}
		case p.IsTool():
			fmt.Fprintf(b, "Tool %s(%s): %s\n", toolkit.ModelName(p.ToolName), arguments(p, maxToolRead),
				cutRunes(resultText(p), maxToolRead))
		}
	}
}

// extractSchema returns the schema of the whole answer. Definitions go to its top, where references look for them.
func extractSchema(extract json.RawMessage) json.RawMessage {
	var inner map[string]any
	_ = json.Unmarshal(extract, &inner) // it was checked
	whole := map[string]any{
		"type": "object", "required": []string{"summary", "extracted"}, "additionalProperties": false,
		"properties": map[string]any{"summary": map[string]any{"type": "string"}, "extracted": inner},
	}
	for _, name := range []string{"$defs", "definitions", "$schema"} {
		if v, ok := inner[name]; ok {
			whole[name] = v
			delete(inner, name)
		}
	}
	return toolkit.Encode(whole)
}

// parseExtracted reads an answer. Its error says for the model what does not fit.
func parseExtracted(answer string, schema json.RawMessage) (result extractions.Result, err error) {
	from, to := strings.IndexByte(answer, '{'), strings.LastIndexByte(answer, '}')
	if from < 0 || to < from {
		return result, errors.New("it is not a JSON object")
	}
	var whole struct {
		Summary   *string
		Extracted json.RawMessage
	}
	if err := json.Unmarshal([]byte(answer[from:to+1]), &whole); err != nil {
		return result, fmt.Errorf("it is not such a JSON object: %w", err)
	}
	if whole.Summary == nil || strings.TrimSpace(*whole.Summary) == "" {
		return result, errors.New(`"summary" is missing`)
	}
	if len(whole.Extracted) == 0 {
		return result, errors.New(`"extracted" is missing`)
	}
	if err := toolkit.CheckObject(schema, whole.Extracted); err != nil {
		return result, fmt.Errorf(`"extracted": %w`, err)
	}
	var compact bytes.Buffer
	_ = json.Compact(&compact, whole.Extracted) // it was read from JSON
	return extractions.Result{
		Summary: cutRunes(strings.TrimSpace(*whole.Summary), maxSummary), Extracted: compact.Bytes(),
	}, nil
}
