// Package cascade lets a session of realtime/served hear and speak by servers of llm/speech, and answer by a model of
// llm.
package cascade

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"

	"voicebridge/llm"
	"voicebridge/llm/speech"
	"voicebridge/realtime"
	"voicebridge/realtime/served"
)

// Ear has utterances written down by a server.
type Ear struct {
	stt              *speech.Transcriber
	language, prompt string
}

// NewEar returns an Ear. Language and prompt are those of sessions that say none.
func NewEar(stt *speech.Transcriber, language, prompt string) *Ear {
	return &Ear{stt, language, prompt}
}

// Write writes down an utterance; see [served.Ear].
func (e *Ear) Write(ctx context.Context, u served.Utterance) iter.Seq2[served.Words, error] {
	return func(yield func(served.Words, error) bool) {
		if len(u.Sound) == 0 {
			return
		}
		for w, err := range e.stt.Transcribe(ctx, speech.Utterance{
			Samples: u.Sound, Language: cmp.Or(u.Language, e.language), Prompt: cmp.Or(u.Prompt, e.prompt),
			Keywords: u.Keywords,
		}) {
			if !yield(served.Words(w), told(err, "transcription_failed")) {
				return
			}
		}
	}
}

// told returns an error of a server as clients are told of it. Only some statuses are about the one request.
func told(err error, code string) error {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		return err
	}
	kind := "server_error"
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		kind = "invalid_request_error"
	}
	return &realtime.Error{Type: kind, Code: code, Message: e.Message}
}
