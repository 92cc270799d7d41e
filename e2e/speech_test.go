package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
)

// The voices of a call: recognisers can tell them apart, and so can people who listen to its recording.
const (
	callersVoice    = "kal16"
	assistantsVoice = "slt"
)

// speechServer is examples/speech: a real recogniser and real voices.
type speechServer struct {
	url string // to which /audio/speech is added
	pid int
}

// newSpeech starts it; its recogniser knows the words of these sentences, in any order, or without any English.
func newSpeech(t *testing.T, sentences ...string) *speechServer {
	t.Helper()
	script, err := filepath.Abs("../examples/speech/server.mjs")
	must(t, err)
	node, err := exec.LookPath("node")
	must(t, err)
	cmd := command(t, node, nil, append([]string{script, "0"}, phrases(t, sentences)...)...)
	line, errs := &firstLine{done: make(chan struct{})}, new(output)
	cmd.Stdout, cmd.Stderr = line, errs
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // what it has started ends with its pipes
		_ = cmd.Wait()         // it was killed
		if said := errs.String(); said != "" {
			t.Errorf("the speech server says %s", said)
		}
	})
	testkit.Receive(t, "the address of the speech server", line.done)
	return &speechServer{url: urlPattern.FindString(line.text.String()), pid: cmd.Process.Pid}
}

// send posts a body and returns the answer.
func (s *speechServer) send(t *testing.T, path, kind string, body io.Reader) (status int, answer []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, body)
	must(t, err)
	req.Header.Set("Content-Type", kind)
	res, err := unpooled.Do(req)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	answer, err = io.ReadAll(res.Body)
	must(t, err)
	return res.StatusCode, answer
}

// say returns a text as it is spoken, a WAV file.
func (s *speechServer) say(t *testing.T, voice, text string) []byte {
	t.Helper()
	status, wav := s.send(t, "/audio/speech", "application/json", bytes.NewReader(toJSON(t, map[string]string{"model": "flite", "voice": voice, "input": text})))
	if status != http.StatusOK {
		t.Fatalf("say %q: status %d: %s", text, status, wav)
	}
	return wav
}

// spokenForm is a form with a WAV file.
func spokenForm(t *testing.T, wav []byte) (kind string, body io.Reader) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	must(t, w.WriteField("model", "pocketsphinx"))
	f, err := w.CreateFormFile("file", "turn.wav")
	must(t, err)
	_, err = f.Write(wav)
	must(t, err)
	must(t, w.Close())
	return w.FormDataContentType(), &b
}

// hear returns the words that are heard in a WAV file.
func (s *speechServer) hear(t *testing.T, wav []byte) string {
	t.Helper()
	kind, form := spokenForm(t, wav)
	status, answer := s.send(t, "/audio/transcriptions", kind, form)
	var heard struct{ Text string }
	if err := json.Unmarshal(answer, &heard); status != http.StatusOK || err != nil {
		t.Fatalf("hear: status %d: %s", status, answer)
	}
	return heard.Text
}

var notWords = regexp.MustCompile(`[^a-z']+`)

// wordsOf are those of a text, as a recogniser writes them.
func wordsOf(text string) []string {
	return strings.Fields(notWords.ReplaceAllString(strings.ToLower(text), " "))
}

// wordErrors is how many words of a text are missing, wrong or added in what was heard, and how many it has.
func wordErrors(said, heard string) (wrong, words int) {
	want, got := wordsOf(said), wordsOf(heard)
	row := make([]int, len(got)+1)
	for j := range row {
		row[j] = j
	}
	for i, w := range want {
		diagonal := row[0]
		row[0] = i + 1
		for j, g := range got {
			changed := diagonal
			if w != g {
				changed++
			}
			diagonal, row[j+1] = row[j+1], min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(got)], len(want)
}

// phrases are the options for a recogniser that knows the words of these sentences: a language model of their pairs (in ARPA's format,
// which is in files of lines `log10(probability) words log10(backoff)`) and their part of the dictionary.
func phrases(t *testing.T, sentences []string) (options []string) {
	t.Helper()
	if len(sentences) == 0 {
		return nil
	}
	total := 0.0
	single, pairs := map[string]float64{}, map[string]map[string]float64{}
	for _, sentence := range sentences {
		before := ""
		for _, word := range slices.Concat([]string{"<s>"}, wordsOf(sentence), []string{"</s>"}) {
			total++
			single[word]++
			if before != "" {
				if pairs[before] == nil {
					pairs[before] = map[string]float64{}
				}
				pairs[before][word]++
			}
			before = word
		}
	}
	const seen = 0.6 // of the probability goes to pairs that a sentence has
	var ones, twos strings.Builder
	count := 0
	for _, word := range slices.Sorted(maps.Keys(single)) {
		p, backoff, rest := math.Log10(single[word]/total), 0.0, 1.0
		if word == "<s>" {
			p = -99 // nothing is before it
		}
		for next, n := range pairs[word] {
			fmt.Fprintf(&twos, "%.4f %s %s\n", math.Log10(seen*n/single[word]), word, next)
			rest -= single[next] / total
			count++
		}
		if pairs[word] != nil {
			backoff = math.Log10((1 - seen) / rest)
		}
		fmt.Fprintf(&ones, "%.4f %s %.4f\n", p, word, backoff)
	}
	model := fmt.Sprintf("\\data\\\nngram 1=%d\nngram 2=%d\n\n\\1-grams:\n%s\n\\2-grams:\n%s\n\\end\\\n", len(single), count, &ones, &twos)

	all, err := os.ReadFile("/usr/share/pocketsphinx/model/en-us/cmudict-en-us.dict")
	must(t, err)
	var dictionary strings.Builder
	known := map[string]bool{"<s>": true, "</s>": true}
	for line := range strings.Lines(string(all)) {
		word, _, _ := strings.Cut(line, " ")
		if word, _, _ = strings.Cut(word, "("); single[word] > 0 {
			known[word] = true
			dictionary.WriteString(line)
		}
	}
	for word := range single {
		if !known[word] {
			t.Fatalf("the recogniser's dictionary has no %q", word)
		}
	}
	folder := t.TempDir()
	lm, dict := filepath.Join(folder, "phrases.lm"), filepath.Join(folder, "phrases.dict")
	must(t, os.WriteFile(lm, []byte(model), 0o600))
	must(t, os.WriteFile(dict, []byte(dictionary.String()), 0o600))
	return []string{"-lm", lm, "-dict", dict}
}

// running are the processes that the server has started and that have not ended.
func (s *speechServer) running(t *testing.T) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		// "pid (name) state parent …"; a name may have brackets and spaces.
		rest := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if rest[1] == strconv.Itoa(s.pid) && rest[0] != "Z" {
			pids = append(pids, file)
		}
	}
	return pids
}

// TestExampleSpeech starts the example with a recogniser and voices, which are programs of their own: it says and hears sentences, refuses
// what it cannot do, and ends the work of a client that has gone.
func TestExampleSpeech(t *testing.T) {
	t.Parallel()
	sentences := []string{"What time does the next train to the city leave?", "The weather will be cold and windy in the morning.", "We need to buy milk, bread and apples."}
	s := newSpeech(t, sentences...)
	if _, body := get(t, s.url+"/models"); !strings.Contains(body, `{"id":"pocketsphinx",`) {
		t.Errorf("its models are %s", body)
	}
	if _, body := get(t, s.url+"/audio/voices"); !strings.Contains(body, `{"id":"`+assistantsVoice+`",`) {
		t.Errorf("its voices are %s", body)
	}
	for _, sentence := range sentences {
		for _, voice := range []string{callersVoice, assistantsVoice} {
			if heard := s.hear(t, s.say(t, voice, sentence)); strings.Join(wordsOf(sentence), " ") != heard {
				t.Errorf("%s says %q, heard is %q", voice, sentence, heard)
			}
		}
	}
	wav := s.say(t, assistantsVoice, "bread")
	testkit.Equal(t, s.hear(t, append(slices.Clone(wav[:44]), make([]byte, 32000)...)), "", "heard in a second of silence")

	telephone := slices.Clone(wav)
	copy(telephone[24:], "\x40\x1f\x00\x00") // 8,000 Hz
	form := func(wav []byte) (kind, body string) {
		kind, form := spokenForm(t, wav)
		b, err := io.ReadAll(form)
		must(t, err)
		return kind, string(b)
	}
	kind, short := form(wav[:20])
	for _, tt := range []struct {
		path, kind, body string
		status           int
		want             string
	}{
		{"/audio/speech", "", "", 400, `"param":"input"`},
		{"/audio/speech", "", `null`, 400, `"param":"input"`},
		{"/audio/speech", "", `{"input":5,"voice":"slt"}`, 400, `"param":"input"`},
		{"/audio/speech", "", `{"input":"` + strings.Repeat("a", 4097) + `","voice":"slt"}`, 400, `"param":"input"`},
		{"/audio/speech", "", `{"input":"a","voice":"$(id)"}`, 400, `"param":"voice"`},
		{"/audio/speech", "", `{"input":"a","voice":"slt","speed":5}`, 400, `"param":"speed"`},
		{"/audio/speech", "", strings.Repeat(" ", 26<<20), 413, "too large"},
		{"/audio/transcriptions", "", "{}", 400, "A form"},
		{"/audio/transcriptions", kind, "nothing", 400, "A form"},
		{"/audio/transcriptions", kind, short, 400, `"param":"file"`},
		{"/audio/transcriptions", kind, strings.Replace(short, `name="file"`, `name="sound"`, 1), 400, `"param":"file"`},
		{"/nothing", "", "", 404, "path"},
	} {
		if status, answer := s.send(t, tt.path, tt.kind, strings.NewReader(tt.body)); status != tt.status || !strings.Contains(string(answer), tt.want) {
			t.Errorf("%s %.80q: %d %s, want %d %s", tt.path, tt.body, status, answer, tt.status, tt.want)
		}
	}
	if kind, body := form(telephone); kind != "" {
		if status, answer := s.send(t, "/audio/transcriptions", kind, strings.NewReader(body)); status != 400 || !strings.Contains(string(answer), "16 kHz") {
			t.Errorf("of 8 kHz: %d %s", status, answer)
		}
	}
	// A text that a shell or flite could take for something else is only said.
	testkit.Equal(t, s.hear(t, s.say(t, assistantsVoice, `-o /tmp/x; $(id) milk`)) != "", true, "said and heard")

	testkit.Eventually(t, "only the next recogniser runs", func() bool { return len(s.running(t)) == 1 })
	long := append(slices.Clone(wav[:44]), bytes.Repeat(wav[44:], 500)...)
	copy(long[40:], "\xff\xff\xff\xff") // of unknown length
	req, stop := s.start(t, long)
	testkit.Eventually(t, "it listens", func() bool { return len(s.running(t)) == 2 })
	stop()
	testkit.Receive(t, "the end of a request that its client has left", req)
	testkit.Eventually(t, "it listens no more", func() bool { return len(s.running(t)) == 1 })
}

// start sends a sound to be heard and returns what is closed at the end of the request, and what leaves before.
func (s *speechServer) start(t *testing.T, wav []byte) (ended <-chan struct{}, leave func()) {
	t.Helper()
	kind, form := spokenForm(t, wav)
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/audio/transcriptions", form)
	must(t, err)
	req.Header.Set("Content-Type", kind)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res, err := unpooled.Do(req); err == nil {
			t.Errorf("it has heard all: %s", res.Status)
			_ = res.Body.Close()
		}
	}()
	return done, leave
}
