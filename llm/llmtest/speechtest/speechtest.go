// Package speechtest is a server with OpenAI's two paths for speech, as strict as the strictest: it refuses fields that
// OpenAI's reference does not have, forms without a file's name, and sound that is not what it says. The name of the
// model says how it answers: words of [Modes], joined by "+", as "wav+22050+odd".
package speechtest

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/llm/speech"
)

// Modes are the words of a model's name. A number is the rate of the sound, in Hz.
var Modes = []string{
	"pcm", "wav", // of speech, whatever was asked for; usually what was
	"unknown", "stereo", "float", "chunks", "guid", // of a WAV
	"sse-audio", "sse-delta", "mp3", "page", "rated", // the Content-Type has the rate
	"odd", "byte", // how the answer is cut
	"slow", "hang", "stall", "cut", "cut-first", "empty", // when it comes, and whether to its end
	"400-openai", "400-fastapi", "422-fastapi", "404-fastapi", "400-plain", "500-plain", "401-openai", // the first request
	"429", "429-quota", "503", // twice; the former with Retry-After
	"text", "html", "verbose", "deltas", "segments", "chat", "no-stream", "no-prompt", "error-event", // of a transcription
	"silence", "whisper", "gpt-transcribe",
}

// Server is a server, of which each answer is what the model's name says.
type Server struct {
	URL string // that the paths follow
	// Words are what it hears; after them "Hello there.". Out of silence it hears "Thank you.".
	Words chan string
	// Also are further modes for texts that have some words.
	Also map[string]string
	// Slow ends a wait of the mode slow.
	Slow chan struct{}

	mu       sync.Mutex
	open     map[net.Conn]bool
	requests []Request
	refused  map[string]int
}

// Request is a request as it came.
type Request struct {
	Path   string
	Header http.Header
	Fields map[string][]string
	File   []byte
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	s := &Server{
		Words: make(chan string, 100), Slow: make(chan struct{}), open: map[net.Conn]bool{}, refused: map[string]int{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/audio/speech", s.speak)
	mux.HandleFunc("POST /v1/audio/transcriptions", s.transcribe)
	mux.HandleFunc("POST /inference", s.transcribe) // whisper.cpp
	server := httptest.NewUnstartedServer(mux)
	server.Config.ConnState = func(c net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, c)
		if state == http.StateActive {
			s.open[c] = true
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	s.URL = server.URL + "/v1"
	return s
}

// Open returns how many connections have a request under way.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Requests returns those that came, with the ones that were refused.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// answer is one answer of the server.
type answer struct {
	http.ResponseWriter

	server *Server
	r      *http.Request
	modes  []string
}

func (a *answer) is(mode string) bool { return slices.Contains(a.modes, mode) }

// begin takes a request, and reports whether it is to be answered.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, fields map[string][]string, file []byte) (*answer, bool) {
	var model string
	if len(fields["model"]) > 0 {
		model = fields["model"][0]
	}
	s.mu.Lock()
	s.requests = append(s.requests, Request{r.URL.Path, r.Header, fields, file})
	s.refused[model]++
	nth := s.refused[model]
	s.mu.Unlock()
	a := &answer{ResponseWriter: w, server: s, r: r, modes: strings.Split(model, "+")}
	if model == "" {
		a.modes = nil
	}
	for words, mode := range s.Also {
		if strings.Contains(strings.Join(fields["input"], ""), words) {
			a.modes = append(a.modes, mode)
		}
	}
	for _, mode := range a.modes {
		if _, err := strconv.Atoi(mode); err != nil && !slices.Contains(Modes, mode) {
			a.refuse(http.StatusNotFound, `{"error":{"message":"The model '`+model+`' does not exist","type":`+
				`"invalid_request_error","param":"model","code":"model_not_found"}}`)
			return nil, false
		}
	}
	for mode, refusal := range refusals {
		if again := strings.HasPrefix(mode, "429") || mode == "503"; a.is(mode) && (!again || nth <= 2) {
			w.Header().Set("Retry-After", refusal.after)
			a.refuse(refusal.status, refusal.body)
			return nil, false
		}
	}
	switch {
	case a.is("hang"):
		<-r.Context().Done()
		return nil, false
	case a.is("slow"):
		select {
		case <-s.Slow:
		case <-r.Context().Done():
			return nil, false
		}
	}
	return a, true
}

var refusals = map[string]struct {
	status      int
	after, body string
}{
	"400-openai": {400, "", `{"error":{"message":"Your input was refused.","type":"invalid_request_error","param":"input",` +
		`"code":"refused"}}`},
	"401-openai": {401, "", `{"error":{"message":"Incorrect API key provided: secret-key.","type":"invalid_request_error",` +
		`"code":"invalid_api_key"}}`},
	"400-fastapi": {400, "", `{"detail":{"error":"invalid_model","message":"Your input was refused."}}`},
	"404-fastapi": {404, "", `{"detail":"Model 'x' is not installed locally."}`},
	"422-fastapi": {422, "", `{"detail":[{"loc":["body","input"],"msg":"Your input was refused.","type":"value_error"}]}`},
	"400-plain":   {400, "", "Your input was refused.\n" + strings.Repeat("x", 100_000)},
	"500-plain":   {500, "", "The engine failed."},
	"429":         {429, "1", `{"error":{"message":"Too many requests."}}`},
	"429-quota":   {429, "1", `{"error":{"message":"You exceeded your current quota.","code":"insufficient_quota"}}`},
	"503":         {503, "", `{"detail":"Model is loading"}`},
}

// refuse answers with an error.
func (a *answer) refuse(status int, body string) {
	if strings.HasPrefix(body, "{") {
		a.Header().Set("Content-Type", "application/json")
	}
	a.WriteHeader(status)
	_, _ = io.WriteString(a, body)
}

func (s *Server) wrong(w http.ResponseWriter, format string, args ...any) {
	(&answer{ResponseWriter: w}).refuse(http.StatusBadRequest, fmt.Sprintf(
		`{"error":{"message":%q,"type":"invalid_request_error"}}`, fmt.Sprintf(format, args...)))
}

// speak answers /audio/speech: 40 ms of a tone for each character.
func (s *Server) speak(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model        string  `json:"model"`
		Input        string  `json:"input"`
		Voice        string  `json:"voice"`
		Instructions string  `json:"instructions"`
		Format       string  `json:"response_format"`
		Stream       string  `json:"stream_format"`
		Speed        float64 `json:"speed"`
	}
	q.Speed, q.Format = 1, "mp3"
	in := json.NewDecoder(r.Body)
	in.DisallowUnknownFields()
	err := in.Decode(&q)
	switch n := len([]rune(q.Input)); {
	case err != nil:
		s.wrong(w, "%v", err)
		return
	case r.Header.Get("Content-Type") != "application/json", q.Model == "", q.Voice == "", n == 0, n > 4096,
		q.Speed < 0.25, q.Speed > 4, !slices.Contains([]string{"mp3", "wav", "pcm"}, q.Format):
		s.wrong(w, "not a request: %+v", q)
		return
	}
	a, ok := s.begin(w, r, map[string][]string{
		"model": {q.Model}, "input": {q.Input}, "voice": {q.Voice}, "response_format": {q.Format},
		"speed": {strconv.FormatFloat(q.Speed, 'g', -1, 64)},
	}, nil)
	if !ok {
		return
	}
	rate := 24000
	for _, mode := range a.modes {
		if n, err := strconv.Atoi(mode); err == nil && !slices.Contains(Modes, mode) {
			rate = n
		}
	}
	samples := Tone(rate, time.Duration(len([]rune(q.Input)))*40*time.Millisecond)
	kind, body := a.sound(q.Format, samples, rate)
	if a.is("rated") {
		kind = fmt.Sprintf("%s; rate=%d", kind, rate)
	}
	w.Header().Set("Content-Type", kind)
	a.send(body)
}

// Tone is a sound without clicks: a sine that fades in and out.
func Tone(rate int, length time.Duration) []int16 {
	samples := make([]int16, int(length*time.Duration(rate)/time.Second))
	for i := range samples {
		fade := min(1, float64(min(i, len(samples)-1-i))/float64(rate/100))
		samples[i] = int16(8000 * fade * math.Sin(2*math.Pi*300*float64(i)/float64(rate)))
	}
	return samples
}

// sound writes samples as the mode says.
func (a *answer) sound(format string, samples []int16, rate int) (kind string, body []byte) {
	switch {
	case a.is("mp3"):
		return "audio/mpeg", []byte("ID3 and so on")
	case a.is("page"):
		return "text/html", []byte("<html>Log in</html>")
	case a.is("empty"):
		return "audio/pcm", nil
	}
	kind, body = "audio/pcm", speech.WAV(samples, rate)[44:]
	if format == "wav" && !a.is("pcm") || slices.ContainsFunc(a.modes, func(mode string) bool {
		return slices.Contains([]string{"wav", "unknown", "stereo", "float", "chunks", "guid"}, mode)
	}) {
		kind, body = "audio/wav", a.wav(samples, rate)
	}
	field := "audio"
	if a.is("sse-delta") {
		field = "delta"
	}
	if !a.is("sse-audio") && !a.is("sse-delta") {
		return kind, body
	}
	var b bytes.Buffer
	b.WriteString(": hello\n\n")
	for part := range slices.Chunk(body, 1001) {
		fmt.Fprintf(&b, "event: speech.audio.delta\ndata: {\"type\":\"speech.audio.delta\",%q:%q}\n\n", field,
			base64.StdEncoding.EncodeToString(part))
	}
	b.WriteString("data: {\"type\":\"speech.audio.done\",\"usage\":{\"total_tokens\":3}}\n\ndata: [DONE]\n\n")
	return "text/event-stream", b.Bytes()
}

// wav writes a file as the mode says.
func (a *answer) wav(samples []int16, rate int) []byte {
	format, channels, bits := 1, 1, 16
	var data, b []byte
	switch {
	case a.is("float"):
		format, bits = 3, 32
		for _, v := range samples {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)/32768))
		}
	case a.is("stereo"):
		channels = 2
		for _, v := range samples { // their mean is v
			data = binary.LittleEndian.AppendUint16(data, uint16(v+v/2))
			data = binary.LittleEndian.AppendUint16(data, uint16(v-v/2))
		}
	default:
		data = speech.WAV(samples, rate)[44:]
	}
	header := []uint16{
		uint16(format), uint16(channels), uint16(rate), uint16(rate >> 16), 0, 0, uint16(channels * bits / 8), uint16(bits),
	}
	if a.is("guid") {
		header[0] = 0xfffe
		header = append(header, 22, 16, 4, 0, uint16(format), 0, 0, 0x10, 0x80, 0xaa00, 0x3800, 0x719b)
	}
	size, whole := len(data), 1000+len(data)
	if a.is("unknown") {
		size, whole = math.MaxUint32, math.MaxUint32
	}
	b = binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(whole))
	if b = append(b, "WAVE"...); a.is("chunks") {
		b = append(b, "LIST\x05\x00\x00\x00hello\x00"...)
	}
	b = binary.LittleEndian.AppendUint32(append(b, "fmt "...), uint32(2*len(header)))
	for _, v := range header {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	return append(binary.LittleEndian.AppendUint32(append(b, "data"...), uint32(size)), data...)
}

// send sends a body as the mode says.
func (a *answer) send(body []byte) {
	whole := len(body)
	switch {
	case a.is("cut"), a.is("stall"):
		body = body[:whole/2]
	case a.is("cut-first"):
		body = body[:min(whole, 30)]
		if !bytes.HasPrefix(body, []byte("RIFF")) {
			body = nil
		}
	}
	flusher := http.NewResponseController(a.ResponseWriter)
	_ = flusher.Flush()
	for i := 0; len(body) > 0; i++ {
		n := len(body)
		switch {
		case a.is("byte") && i < 200:
			n = 1
		case a.is("odd"), a.is("byte"):
			n = min(n, 2*(i%500)+1)
		}
		if _, err := a.Write(body[:n]); err != nil {
			return // the client has gone
		}
		_ = flusher.Flush()
		body = body[n:]
	}
	if a.is("stall") {
		<-a.r.Context().Done()
	}
	if a.is("cut") || a.is("cut-first") {
		panic(http.ErrAbortHandler)
	}
}

// transcribe answers /audio/transcriptions.
func (s *Server) transcribe(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseMultipartForm(64 << 20); err != nil {
		s.wrong(w, "%v", err)
		return
	}
	fields := r.MultipartForm.Value
	known := []string{"model", "language", "prompt", "response_format", "stream", "temperature", "keywords[]"}
	for name, values := range fields {
		if !slices.Contains(known, name) || values[0] == "" || len(values) > 1 && !strings.HasSuffix(name, "[]") {
			s.wrong(w, "Unrecognized request argument supplied: %s", name)
			return
		}
	}
	files := r.MultipartForm.File["file"]
	if len(files) != 1 || len(r.MultipartForm.File) != 1 || !strings.HasSuffix(files[0].Filename, ".wav") {
		s.wrong(w, "file: a file with a name that ends in .wav is required")
		return
	}
	f, err := files[0].Open()
	if err != nil {
		s.wrong(w, "%v", err)
		return
	}
	defer f.Close()
	file, err := io.ReadAll(f)
	samples := make([]int16, max(0, len(file)-44)/2)
	for i := range samples {
		samples[i] = int16(binary.LittleEndian.Uint16(file[44+2*i:]))
	}
	if err != nil || !bytes.Equal(file, speech.WAV(samples, speech.Rate)) {
		s.wrong(w, "file: not a WAV of 16 kHz mono")
		return
	}
	a, ok := s.begin(w, r, fields, file)
	if !ok {
		return
	}
	has := func(name string) bool { return len(fields[name]) > 0 }
	verbose, stream := has("response_format") && fields["response_format"][0] == "verbose_json", has("stream")
	switch {
	case stream && a.is("no-stream"):
		s.wrong(w, "Streaming is not supported.")
		return
	case has("prompt") && a.is("no-prompt"), has("keywords[]") && !a.is("gpt-transcribe"):
		a.refuse(http.StatusUnprocessableEntity,
			`{"detail":[{"loc":["body","prompt"],"msg":"Extra inputs are not permitted"}]}`)
		return
	}
	words := "Hello there."
	select {
	case words = <-s.Words:
	default:
		if !slices.ContainsFunc(samples, func(v int16) bool { return v > 100 }) || a.is("silence") {
			words = "Thank you."
		}
	}
	kind, body := a.words(words, verbose, stream)
	w.Header().Set("Content-Type", kind)
	a.send([]byte(body))
}

// words writes what was heard as the mode says.
func (a *answer) words(words string, verbose, stream bool) (kind, body string) {
	quoted := func(text string) string { return string(must(json.Marshal(text))) }
	events := func(each func(word string) string, last string) string {
		var b strings.Builder
		for _, word := range strings.SplitAfter(words, " ") {
			b.WriteString("data: " + each(word) + "\n\n")
		}
		return b.String() + last
	}
	switch {
	case a.is("text"):
		return "text/plain; charset=utf-8", words + "\n"
	case a.is("html"): // whisper.cpp
		return "text/html", " " + words + "\n"
	case a.is("page"):
		return "text/html", "\n<html>Log in</html>"
	case a.is("empty"):
		return "application/json", `{"text":""}`
	case a.is("error-event"):
		return "text/event-stream", `data: {"type":"error","error":{"message":"The engine failed."}}` + "\n\n"
	case a.is("deltas") && stream:
		return "text/event-stream", events(func(word string) string {
			return `{"type":"transcript.text.delta","delta":` + quoted(word) + `}`
		}, `data: {"type":"transcript.text.done","text":`+quoted(words)+"}\n\ndata: [DONE]\n\n")
	case a.is("segments") && stream:
		return "text/event-stream", ": hello\n\n" + events(func(word string) string {
			return `{"type":"transcript.text.segment","text":` + quoted(" "+word) + `}`
		}, "event: x\ndata: {\"type\":\"transcript.text.done\",\"text\":"+quoted(words)+"}\n\n")
	case a.is("chat") && stream: // vLLM
		return "text/event-stream", events(func(word string) string {
			return `{"object":"transcription.chunk","choices":[{"index":0,"delta":{"content":` + quoted(word) + `}}]}`
		}, "data: {\"object\":\"transcription.chunk\",\"choices\":[],\"usage\":{}}\n\ndata: [DONE]\n\n")
	case verbose || a.is("verbose"):
		silent := "0.01"
		if words == "Thank you." {
			silent = "0.93"
		}
		return "application/json", `{"task":"transcribe","duration":1.5,"text":` + quoted(" "+words) +
			`,"segments":[{"id":0,"no_speech_prob":0.97},{"id":1,"text":"","no_speech_prob":` + silent + `}]}`
	}
	return "application/json", `{"text":` + quoted(words) + `,"usage":{"type":"tokens"}}`
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
