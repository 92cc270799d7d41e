package e2e

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/opus"
	"voicebridge/thread"
)

// line is what somebody says to the scripted model, and what it does: it says something, or it calls a tool and says something then.
type line struct{ heard, says, tool, arguments string }

// scriptedModel is a language model of OpenAI's kind, which answers the line that is most like what it was told: a recogniser may mishear.
type scriptedModel struct {
	*httptest.Server
	script []line
	mu     sync.Mutex
	asked  []string // bodies of requests
}

func newScriptedModel(t *testing.T, script []line) *scriptedModel {
	t.Helper()
	m := &scriptedModel{script: script}
	m.Server = httptest.NewServer(http.HandlerFunc(m.answer))
	t.Cleanup(m.Close)
	return m
}

// lastAsked is the last request.
func (m *scriptedModel) lastAsked() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.asked) == 0 {
		return ""
	}
	return m.asked[len(m.asked)-1]
}

func (m *scriptedModel) answer(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Messages []struct {
			Role    string `json:"role"`
			Content any    `json:"content"`
		} `json:"messages"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &req) != nil || len(req.Messages) == 0 {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	m.asked = append(m.asked, string(body))
	m.mu.Unlock()
	last, told := req.Messages[len(req.Messages)-1].Role, ""
	for _, message := range req.Messages {
		if message.Role == "user" {
			told = fmt.Sprint(message.Content)
		}
	}
	next := slices.MinFunc(m.script, func(a, b line) int {
		wrongA, _ := wordErrors(a.heard, told)
		wrongB, _ := wordErrors(b.heard, told)
		return wrongA - wrongB
	})
	var deltas []map[string]any
	finish := "stop"
	if next.tool != "" && last == "user" {
		call := map[string]any{"index": 0, "id": fmt.Sprintf("call_%d", len(req.Messages)), "type": "function", "function": map[string]any{"name": next.tool, "arguments": next.arguments}}
		deltas, finish = append(deltas, map[string]any{"role": "assistant", "tool_calls": []any{call}}), "tool_calls"
	} else {
		for _, word := range strings.SplitAfter(next.says, " ") {
			deltas = append(deltas, map[string]any{"role": "assistant", "content": word})
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	choices := []map[string]any{}
	for _, delta := range deltas {
		choices = append(choices, map[string]any{"index": 0, "delta": delta})
	}
	for _, choice := range append(choices, map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": finish}) {
		data, _ := json.Marshal(map[string]any{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": []any{choice}})
		fmt.Fprintf(w, "data: %s\n\n", data)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// cascade is a page in calls with a real recogniser and a real voice.
type cascade struct {
	*rig
	*tab
	speech *speechServer
	model  *scriptedModel
	script []line
}

// newCascade starts a page whose calls answer by a script.
func newCascade(t *testing.T, script []line) *cascade {
	t.Helper()
	var sentences []string
	for _, l := range script {
		sentences = append(sentences, l.heard, l.says)
	}
	c := &cascade{speech: newSpeech(t, sentences...), model: newScriptedModel(t, script), script: script}
	settings := fmt.Sprintf(rigSettings+`
upstream: cascade
cascade:
  stt: {url: %q, model: pocketsphinx}
  tts: {url: %q, model: flite, voice: %s}
text: {provider: openai, model: scripted}
tools: {approve: [create_pie_chart]}
conversations: {history: {replay_messages: 60}}
recording: {enabled: true}
`, c.speech.url, c.speech.url, assistantsVoice)
	c.rig = newRig(t, rigConfig{environ: slices.Concat(waiting, []string{"VOICEBRIDGE_CONFIG=" + write(t, settings), "OPENAI_BASE_URL=" + c.model.URL + "/v1"})})
	c.rig.another = true
	c.tab = openBrowser(t)
	c.visit(t, c.url+"/")
	return c
}

// call presses Talk and waits until somebody listens.
func (c *cascade) call(t *testing.T) {
	t.Helper()
	c.click(t, "talk")
	c.untilLive(t)
}

// tells has the caller say a line of the script. It returns once its words are written down.
func (c *cascade) tells(t *testing.T, l line) {
	t.Helper()
	const spoken = "probe.messages().filter((m) => m.role === 'user' && m.source === 'voice' && m.status === 'completed' && !m.draft).length"
	before := eval[int](t, c.tab, spoken)
	c.utter(t, c.speech.say(t, callersVoice, l.heard))
	c.until(t, "what was said being written down: "+l.heard, fmt.Sprintf("%s > %d", spoken, before))
}

// untilSaid waits until the answer of a line has been heard.
func (c *cascade) untilSaid(t *testing.T, l line) {
	t.Helper()
	c.untilMessage(t, "assistant voice completed", l.says)
	c.untilSilent(t)
}

// soundRate16 is the recogniser's.
const soundRate16 = 16000

// soundOf decodes a track of a recording; gaps are silent.
func soundOf(t *testing.T, file string) (samples []int16) {
	t.Helper()
	decoder, err := opus.NewDecoder(soundRate16)
	must(t, err)
	for _, packet := range oggPackets(t, file) {
		if isFill(packet) {
			samples = append(samples, make([]int16, opus.Duration(packet)*soundRate16/opus.ClockRate)...)
			continue
		}
		pcm, err := decoder.Decode(packet)
		must(t, err)
		samples = append(samples, pcm...)
	}
	return samples
}

// wavOf makes a WAV file.
func wavOf(samples []int16) []byte {
	pcm := make([]byte, 0, 2*len(samples))
	for _, s := range samples {
		pcm = binary.LittleEndian.AppendUint16(pcm, uint16(s))
	}
	head := append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(36+len(pcm))), "WAVEfmt "...)
	for _, n := range []uint32{16, 1 | 1<<16, soundRate16, 2 * soundRate16, 2 | 16<<16} {
		head = binary.LittleEndian.AppendUint32(head, n)
	}
	return append(binary.LittleEndian.AppendUint32(append(head, "data"...), uint32(len(pcm))), pcm...)
}

// wantUnderstood compares what was said with the words in the thread, of which at most a tenth may be wrong.
func (c *cascade) wantUnderstood(t *testing.T, messages []thread.Message, lines ...line) {
	t.Helper()
	var heard []string
	for _, m := range messages {
		if m.Role == thread.RoleUser && m.Metadata.Source == thread.SourceVoice {
			heard = append(heard, m.Text())
		}
	}
	if len(heard) != len(lines) {
		t.Fatalf("%d sentences were spoken, and these were written down: %q", len(lines), heard)
	}
	wrong, words := 0, 0
	for i, l := range lines {
		w, n := wordErrors(l.heard, heard[i])
		if wrong, words = wrong+w, words+n; w > 0 {
			t.Logf("of %q was heard %q", l.heard, heard[i])
		}
	}
	t.Logf("%d of %d words that the caller said were misheard", wrong, words)
	if wrong*10 > words {
		t.Errorf("%d of %d words that the caller said were misheard", wrong, words)
	}
}

// wantHeard has the sound of the assistant recognised: each answer was spoken whole, and of one that was interrupted as much as the
// thread says that the caller has heard, to a word.
func (c *cascade) wantHeard(t *testing.T, messages []thread.Message, callID string, interruptions int) {
	t.Helper()
	sound := soundOf(t, c.trackFile(t, callID, "assistant"))
	wrong, words, interrupted := 0, 0, 0
	answers := slices.DeleteFunc(slices.Clone(messages), func(m thread.Message) bool {
		return m.Role != thread.RoleAssistant || m.Metadata.CallID != callID || m.Metadata.Audio == nil
	})
	for i, m := range answers {
		part := sound[min(len(sound), int(m.Metadata.Audio.StartMS)*soundRate16/1000):]
		if i+1 < len(answers) { // whatever the thread says about its end
			part = part[:min(len(part), int(answers[i+1].Metadata.Audio.StartMS-m.Metadata.Audio.StartMS)*soundRate16/1000)]
		}
		said := c.speech.hear(t, wavOf(part))
		if m.Metadata.Status != thread.StatusInterrupted {
			w, n := wordErrors(m.Text(), said)
			if wrong, words = wrong+w, words+n; w > 0 {
				t.Logf("%q sounds like %q", m.Text(), said)
			}
			continue
		}
		interrupted++
		if m.Metadata.HeardText == nil {
			t.Errorf("of the interrupted answer the thread does not say what was heard")
			continue
		}
		all, heard := wordsOf(m.Text()), len(wordsOf(*m.Metadata.HeardText))
		sounded := mostLike(all, said)
		t.Logf("of an answer of %d words %d were heard by the thread, %d by its sound of %.1f s: %q", len(all), heard, sounded, float64(len(part))/soundRate16, said)
		if heard == 0 || heard == len(all) || heard < sounded-1 || heard > sounded+1 {
			t.Errorf("%d words were heard by the thread, %d by their sound", heard, sounded)
		}
	}
	t.Logf("%d of %d words of the assistant's sound are wrong", wrong, words)
	if wrong*10 > words || words == 0 {
		t.Errorf("%d of %d words of the assistant's sound are wrong", wrong, words)
	}
	testkit.Equal(t, interrupted, interruptions, "interrupted answers")
}

// mostLike returns how many words of a text, from its first on, are most like what was heard.
func mostLike(words []string, heard string) (n int) {
	least := len(words) + len(heard)
	for i := range len(words) + 1 {
		if wrong, _ := wordErrors(strings.Join(words[:i], " "), heard); wrong < least {
			least, n = wrong, i
		}
	}
	return n
}

// thanks is the shortest call.
var thanks = line{heard: "Thank you very much for your help today.", says: "You are welcome."}

// TestPageWithVoices is a short call of the page with a recogniser and a voice, which are processes of their own.
func TestPageWithVoices(t *testing.T) {
	t.Parallel()
	c := newCascade(t, []line{thanks})
	c.call(t)
	c.tells(t, thanks)
	c.untilSaid(t, thanks)
	id := c.thread(t)
	c.click(t, "hangup")
	c.untilOver(t)
	testkit.Equal(t, c.untilEnded(t, 1), []string{"hangup"}, "the call's end")
	messages := c.rig.messages(t, id)
	c.wantUnderstood(t, messages, thanks)
}
