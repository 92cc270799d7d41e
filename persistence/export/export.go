// Package export writes a whole thread as Markdown for people and as JSON for programs.
package export

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"

	"voicebridge/persistence"
	"voicebridge/thread"
)

// Format is the form of an export.
type Format string

// The forms of an export.
const (
	Markdown Format = "markdown"
	JSON     Format = "json"
)

// FormatOf returns the format with a name, and whether there is one.
func FormatOf(name string) (Format, bool) {
	f := Format(name)
	return f, f == Markdown || f == JSON
}

// MediaType returns the format's media type for HTTP.
func (f Format) MediaType() string {
	if f == JSON {
		return "application/json"
	}
	return "text/markdown; charset=utf-8"
}

// Extension returns the file name extension, without the dot.
func (f Format) Extension() string {
	if f == JSON {
		return "json"
	}
	return "md"
}

// page is how many messages are read at once.
const page = 200

// reader reads messages; *persistence.Store is one.
type reader interface {
	Messages(ctx context.Context, key thread.Key, after int64, limit int) ([]thread.Message, error)
}

// Messages yields all messages of a thread in order, each once: messages that move while a live
// thread is read are skipped the second time. An error ends the sequence.
func Messages(ctx context.Context, store reader, key thread.Key) iter.Seq2[thread.Message, error] {
	return func(yield func(thread.Message, error) bool) {
		seen := map[string]bool{}
		for after := int64(0); ; {
			messages, err := store.Messages(ctx, key, after, page)
			if err != nil {
				yield(thread.Message{}, fmt.Errorf("read thread: %w", err))
				return
			}
			for _, m := range messages {
				after = m.Seq
				if seen[m.ID] {
					continue
				}
				seen[m.ID] = true
				if !yield(m, nil) {
					return
				}
			}
			if len(messages) < page {
				return
			}
		}
	}
}

// Write writes a thread with its messages. It returns an error of messages or of w; the output is
// then incomplete.
func Write(w io.Writer, format Format, thread persistence.Thread, messages iter.Seq2[thread.Message, error]) error {
	out := bufio.NewWriterSize(w, 32<<10)
	var err error
	switch format {
	case Markdown:
		err = writeMarkdown(out, thread, messages)
	case JSON:
		err = writeJSON(out, thread, messages)
	default:
		err = fmt.Errorf("there is no format %q", format)
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	return nil
}

// writeJSON writes {"thread":{…},"messages":[…]}, the messages as UIMessages, one per line.
func writeJSON(w *bufio.Writer, thread persistence.Thread, messages iter.Seq2[thread.Message, error]) error {
	head, err := encode(thread)
	if err != nil {
		return err
	}
	if err := puts(w, `{"thread":`, head, ",\n\"messages\":["); err != nil {
		return err
	}
	before := "\n"
	for m, err := range messages {
		if err != nil {
			return err
		}
		data, err := encode(m)
		if err != nil {
			return err
		}
		if err := puts(w, before, data); err != nil {
			return err
		}
		before = ",\n"
	}
	return puts(w, "\n]}\n")
}

// encode encodes JSON without escaping for HTML.
func encode(v any) (string, error) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return "", fmt.Errorf("encode: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}
