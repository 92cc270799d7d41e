package ws

import (
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"voicebridge/realtime"
)

// tree is a JSON object.
type tree = map[string]any

// betaNames are the names of events before general availability, and what they are now.
var betaNames = map[string]string{
	"response.audio.delta":            realtime.TypeOutputAudioDelta,
	"response.audio.done":             realtime.TypeOutputAudioDone,
	"response.audio_transcript.delta": realtime.TypeAudioTranscriptDelta,
	"response.audio_transcript.done":  realtime.TypeAudioTranscriptDone,
	"response.text.delta":             realtime.TypeOutputTextDelta,
	"response.text.done":              realtime.TypeOutputTextDone,
	realtime.TypeItemCreatedBeta:      realtime.TypeItemAdded,
}

// betaContent are the names of an assistant's contents before general availability, and what they are now.
var betaContent = map[string]string{"text": realtime.ContentOutputText, "audio": realtime.ContentOutputAudio}

var contentInBeta = map[string]string{realtime.ContentOutputText: "text", realtime.ContentOutputAudio: "audio"}

// received returns the events of OpenAI's API that say what an upstream's event says, mostly the same bytes.
func (p *Profile) received(ev realtime.Event) []realtime.Event {
	name, beta := betaNames[ev.Type]
	isSession := ev.Session != nil && (len(p.Shape.Moved) > 0 || p.Shape.NestedTools)
	old := p.Shape.Beta && (ev.Item != nil || ev.Response != nil)
	expires := ev.Type == realtime.TypeSessionCreated && p.MaxSession > 0
	if !beta && !isSession && !old && !expires {
		return []realtime.Event{ev}
	}
	t := realtime.Tree(ev.Raw)
	if t == nil {
		return []realtime.Event{ev}
	}
	if beta {
		t["type"] = name
	}
	if session, ok := t["session"].(tree); ok {
		p.Shape.sessionFrom(session)
		if expires && session["expires_at"] == nil {
			session["expires_at"] = time.Now().Add(p.MaxSession).Unix()
		}
	}
	if p.Shape.Beta {
		contents(t["item"], betaContent)
		responseFrom(t["response"])
	}
	events := again(t)
	if item, ok := t["item"].(tree); ok && ev.Type == realtime.TypeItemCreatedBeta && item["status"] != "in_progress" {
		t["type"] = realtime.TypeItemDone
		events = append(events, again(t)...)
	}
	return events
}

// unknownInBeta are members of a session that came later.
var unknownInBeta = []string{
	"type", "audio", "truncation", "tracing", "include", "prompt", "reasoning", "parallel_tool_calls",
}

// sent returns a client's event of OpenAI's API as the upstream takes it. first means that no session.update was
// accepted yet.
func (p *Profile) sent(ev realtime.Event, first bool, more string, model string) []byte {
	differsInBeta := ev.Type == realtime.TypeItemCreate || ev.Type == realtime.TypeResponseCreate
	if ev.Type != realtime.TypeSessionUpdate && !(p.Shape.Beta && differsInBeta) {
		return ev.Raw
	}
	t := realtime.Tree(ev.Raw)
	if session, ok := t["session"].(tree); ok {
		if first {
			realtime.Put(session, "audio.input.format", p.format(p.RateIn))
			realtime.Put(session, "audio.output.format", p.format(p.RateOut))
			if p.ModelInSession {
				session["model"] = model
			}
		}
		if instructions, ok := session["instructions"].(string); ok && more != "" {
			session["instructions"] = instructions + more
		}
		p.Shape.sessionTo(session)
	}
	if response, ok := t["response"].(tree); ok {
		if v, ok := take(response, "output_modalities"); ok {
			response["modalities"] = modalities(v, "text", "audio")
		}
		if v, ok := take(response, "max_output_tokens"); ok {
			response["max_response_output_tokens"] = v
		}
	}
	contents(t["item"], contentInBeta)
	return realtime.Encode(t)
}

func (p *Profile) format(rate int) tree {
	for name, f := range laws {
		if f == p.law {
			return tree{"type": name}
		}
	}
	return tree{"type": "audio/pcm", "rate": rate}
}

// sessionTo changes a session of OpenAI's API into the upstream's.
func (s *Shape) sessionTo(session tree) {
	audio, _ := session["audio"].(tree)
	input, _ := audio["input"].(tree)
	if transcription, ok := input["transcription"].(tree); ok && s.Keyterms != "" {
		s.keyterms(transcription)
	}
	for _, m := range s.Moved {
		value, ok := take(session, m.OpenAI)
		if !ok {
			continue
		}
		switch {
		case m.Here == "modalities":
			value = modalities(value, "text", "audio")
		case strings.HasSuffix(m.Here, "_format"):
			value = s.PCM
		}
		realtime.Put(session, m.Here, value)
	}
	if s.Beta {
		for _, name := range unknownInBeta {
			delete(session, name)
		}
	}
	if tools, ok := session["tools"].([]any); ok && s.NestedTools {
		for i, tool := range tools {
			if tool, ok := tool.(tree); ok && tool["type"] == "function" {
				delete(tool, "type")
				tools[i] = tree{"type": "function", "function": tool}
			}
		}
	}
}

// maxKeyterm is how many characters a word may have that a transcription is told of. Source: xAI's page about the voice
// agent; nobody else says.
const maxKeyterm = 50

// keyterms tells a transcription of words in the upstream's way.
func (s *Shape) keyterms(transcription tree) {
	words, _ := transcription["keywords"].([]any)
	delete(transcription, "keywords")
	if s.Keyterms == KeytermsPrompt {
		texts := make([]string, len(words))
		for i, word := range words {
			texts[i], _ = word.(string)
		}
		if len(words) > 0 && transcription["prompt"] == nil {
			transcription["prompt"] = strings.Join(texts, ", ")
		}
		return
	}
	delete(transcription, "prompt")
	words = slices.DeleteFunc(words, func(word any) bool {
		text, _ := word.(string)
		return utf8.RuneCountInString(text) > maxKeyterm
	})
	if s.Keyterms != KeytermsNone && len(words) > 0 {
		transcription[s.Keyterms] = words
	}
}

// sessionFrom changes an upstream's session into one of OpenAI's API.
func (s *Shape) sessionFrom(session tree) {
	for _, m := range s.Moved {
		value, ok := take(session, m.Here)
		if !ok {
			continue
		}
		switch {
		case m.Here == "modalities":
			value = modalities(value, "audio")
		case strings.HasSuffix(m.Here, "_format"):
			value = tree{"type": "audio/pcm"}
		}
		realtime.Put(session, m.OpenAI, value)
	}
	if s.Beta {
		session["type"] = "realtime"
		delete(session, "temperature")
	}
	if tools, ok := session["tools"].([]any); ok && s.NestedTools {
		for _, tool := range tools {
			tool, _ := tool.(tree)
			if function, ok := tool["function"].(tree); ok {
				delete(tool, "function")
				maps.Copy(tool, function)
			}
		}
	}
}

// toModalities writes modalities as they were before general availability: sound never came without its words.
// modalities returns those of a session or response; where they have audio, as the other side says it.
func modalities(v any, audio ...any) any {
	if list, ok := v.([]any); ok && slices.Contains(list, any("audio")) {
		return audio
	}
	return v
}

func responseFrom(v any) {
	response, ok := v.(tree)
	if !ok {
		return
	}
	if v, ok := take(response, "modalities"); ok {
		response["output_modalities"] = modalities(v, "audio")
	}
	output, _ := response["output"].([]any)
	for _, item := range output {
		contents(item, betaContent)
	}
}

// contents renames the types of the contents of the assistant's items.
func contents(v any, names map[string]string) {
	item, _ := v.(tree)
	if item["role"] != "assistant" {
		return
	}
	list, _ := item["content"].([]any)
	for _, content := range list {
		content, _ := content.(tree)
		kind, _ := content["type"].(string)
		if name, ok := names[kind]; ok {
			content["type"] = name
		}
	}
}

// take removes the value at a path.
func take(t tree, path string) (value any, ok bool) {
	for {
		group, rest, nested := strings.Cut(path, ".")
		if !nested {
			value, ok = t[path]
			delete(t, path)
			return value, ok
		}
		inner, isTree := t[group].(tree)
		if !isTree {
			return nil, false
		}
		t, path = inner, rest
	}
}

// again reads what was changed.
func again(t tree) []realtime.Event {
	ev, err := realtime.Decode(realtime.Encode(t))
	if err != nil {
		return nil
	}
	return []realtime.Event{ev}
}

// text reads a JSON string.
func text(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	return strings.Trim(string(raw), `"`)
}

// newID returns a name that nothing else has.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()[:16]) }
