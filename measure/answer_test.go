package measure

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/llm/llmtest/speechtest"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/realtimetest"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
)

// The question that is asked again and again, which has to be understood.
const (
	question  = "What time does the next train to the city leave?"
	questions = 4 // in each round
)

// BenchmarkAnswer asks a question aloud, again and again in one call, and reports how long after its last sound the caller hears an
// answer begin, by stage, in ms; and what the program uses meanwhile: CPU in % of a core, and MB.
func BenchmarkAnswer(b *testing.B) {
	for _, upstream := range []struct {
		name    string
		environ func(*testing.B) []string
	}{
		{"cascade, recogniser and voice at 0 ms", func(b *testing.B) []string { return cascaded(speechtest.New(b).URL, "whisper", "wav") }},
		{"cascade, pocketsphinx and flite", func(b *testing.B) []string { return cascaded(exampleServer(b), "pocketsphinx", "flite") }},
		{"simulator over WebRTC", func(b *testing.B) []string { return []string{"OPENAI_BASE_URL=" + simulated(b) + "/v1"} }},
		{"simulator over WebSocket", func(b *testing.B) []string {
			return []string{fmt.Sprintf(`VOICEBRIDGE_UPSTREAMS=[{"name":"s","profile":"realtime","url":"%s/v1/realtime"}]`, strings.Replace(simulated(b), "http", "ws", 1))}
		}},
		{"strict server of OpenAI's schema", func(b *testing.B) []string {
			strict := realtimetest.Strict{
				Dialect: realtimetest.Realtime(), Model: "voice-1", Hears: []string{question},
				Answer: func(string) realtimetest.Reply {
					return realtimetest.Reply{Say: "It leaves at noon.", Sound: 2 * time.Second}
				},
			}
			return []string{
				"STRICT_KEY=" + realtimetest.Key,
				fmt.Sprintf(`VOICEBRIDGE_UPSTREAMS=[{"name":"s","profile":"openai","transport":"websocket","url":%q,"model":"voice-1","voice":"marin","api_key_env":"STRICT_KEY"}]`, strict.Serve(b)),
			}
		}},
	} {
		b.Run(upstream.name, func(b *testing.B) {
			environ := append(upstream.environ(b), "OPENAI_API_KEY=load", "VOICEBRIDGE_TEXT_PROVIDER=simulator")
			address, pid := program(b, environ...)
			idle := memory(b, pid)
			c := newConversation(b, address)
			c.ask(b) // what is loaded when it is first needed is loaded
			c.heard = nil
			began, used := time.Now(), processor(b, pid)
			for b.Loop() {
				for range questions {
					c.ask(b)
				}
			}
			b.ReportMetric(100*(processor(b, pid)-used).Seconds()/time.Since(began).Seconds(), "cpu-%")
			b.ReportMetric(memory(b, pid)-idle, "MB")
			c.stages(b).report(b)
		})
	}
}

// cascaded are the settings of a cascade with such a server.
func cascaded(url, stt, tts string) []string {
	return []string{
		"VOICEBRIDGE_UPSTREAM=cascade", "VOICEBRIDGE_CASCADE__STT__URL=" + url, "VOICEBRIDGE_CASCADE__STT__MODEL=" + stt,
		"VOICEBRIDGE_CASCADE__TTS__URL=" + url, "VOICEBRIDGE_CASCADE__TTS__MODEL=" + tts, "VOICEBRIDGE_CASCADE__TTS__VOICE=slt",
	}
}

// exampleServer is examples/speech with a grammar of the question alone: to hear any English takes the recogniser five times as long.
func exampleServer(b *testing.B) (url string) {
	grammar := filepath.Join(b.TempDir(), "question.jsgf")
	words := strings.ToLower(strings.TrimSuffix(question, "?"))
	must(b, os.WriteFile(grammar, []byte("#JSGF V1.0;\ngrammar question;\npublic <question> = "+words+";\n"), 0o600))
	cmd := exec.CommandContext(b.Context(), "node", "../examples/speech/server.mjs", "0", "-jsgf", grammar)
	out, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	b.Cleanup(func() { _ = cmd.Wait() }) // b.Context has ended
	line, err := bufio.NewReader(out).ReadString('\n')
	must(b, err)
	return urlPattern.FindString(line)
}

// simulated is the simulator with its usual pace, on an address.
func simulated(b *testing.B) (address string) {
	script := simulator.DefaultScript()
	script.Spoken = script.Spoken[:1] // which calls no tools
	sim, err := simulator.New(simulator.Config{Script: script})
	must(b, err)
	persistencetest.Start(b, sim.Run)
	server := httptest.NewServer(sim)
	b.Cleanup(server.Close)
	return server.URL
}

// processor is what a process has used of processors.
func processor(b *testing.B, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(b, err)
	var user, system int64 // of 100 a second
	_, err = fmt.Sscan(strings.Join(strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[11:13], " "), &user, &system)
	must(b, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// memory is what a process has of memory, in MB.
func memory(b *testing.B, pid int) (mb float64) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	must(b, err)
	var size, resident float64
	_, err = fmt.Sscan(string(statm), &size, &resident)
	must(b, err)
	return resident * float64(os.Getpagesize()) / (1 << 20)
}

// conversation is a call in which the same is asked again and again.
type conversation struct {
	address, thread  string
	words            [][]byte // the question's packets
	speak            chan struct{}
	said             chan time.Time // the end of the question
	started, stopped chan time.Time // the answer, at the caller
	heard            []float64      // from the end of the question until an answer has begun, in ms
}

func newConversation(b *testing.B, address string) *conversation {
	c := &conversation{
		address: address, words: spokenQuestion(b), speak: make(chan struct{}, 1),
		said: make(chan time.Time, 1), started: make(chan time.Time, 8), stopped: make(chan time.Time, 8),
	}
	api, err := rtc.New(rtc.Config{Loopback: true})
	must(b, err)
	b.Cleanup(func() { must(b, api.Close()) })
	ready := make(chan string, 1)
	peer, offer, err := api.Offer(b.Context(), media.Handlers{Message: func(data []byte) {
		var event struct {
			Type     string `json:"type"`
			ThreadID string `json:"thread_id"`
		}
		_ = json.Unmarshal(data, &event) // what it is not stays empty
		switch event.Type {
		case "bridge.ready":
			ready <- event.ThreadID
		case "output_audio_buffer.started":
			c.started <- time.Now()
		case "output_audio_buffer.stopped":
			c.stopped <- time.Now()
		}
	}})
	must(b, err)
	pool := &http.Transport{}
	client := &realtime.Client{BaseURL: address + "/v1", HTTP: &http.Client{Transport: pool}, Timeout: time.Minute}
	made, err := client.CreateCall(b.Context(), offer, []byte(`{"type":"realtime"}`))
	must(b, err)
	must(b, peer.Accept(b.Context(), made.Answer))
	var running sync.WaitGroup
	running.Go(func() { c.send(peer, peer.Done()) })
	b.Cleanup(func() {
		must(b, peer.Close())
		running.Wait()
		pool.CloseIdleConnections()
	})
	c.thread = testkit.Take(b, "a call that is ready", ready)
	return c
}

// spokenQuestion returns the packets of a question, without the silence around it.
func spokenQuestion(b *testing.B) (packets [][]byte) {
	const frame = mixRate / 50
	encoder, err := opus.NewEncoder(mixRate)
	must(b, err)
	for part := range slices.Chunk(say(b, "kal16", question), frame) {
		packet, err := encoder.Encode(append(slices.Clone(part), make([]int16, frame-len(part))...))
		must(b, err)
		packets = append(packets, slices.Clone(packet))
	}
	return packets
}

// send sends silence until done is closed, and the question when it is asked.
func (c *conversation) send(dst media.Sink, done <-chan struct{}) {
	ticks := time.Tick(media.FrameTime)
	var words [][]byte
	began := time.Now()
	for n := uint32(0); ; {
		select {
		case <-c.speak:
			words = append(words, c.words...)
		case now := <-ticks:
			for ; time.Duration(n)*media.FrameTime <= now.Sub(began); n++ { // a busy machine leaves some out
				packet := []byte{0xf8, 0xff, 0xfe}
				if len(words) > 0 {
					packet, words = words[0], words[1:]
					if len(words) == 0 {
						c.said <- time.Now()
					}
				}
				_ = dst.WriteAudio(&media.Packet{Source: 1, Sequence: uint16(n), Timestamp: n * media.FrameStep, Payload: packet})
			}
		case <-done:
			return
		}
	}
}

// ask says the question and waits for the end of the answer.
func (c *conversation) ask(b *testing.B) {
	c.speak <- struct{}{}
	said := testkit.Take(b, "the end of the question", c.said)
	c.heard = append(c.heard, float64(testkit.Take(b, "an answer", c.started).Sub(said).Microseconds())/1000)
	testkit.Take(b, "the end of the answer", c.stopped)
}

// stages returns, for each stage that answers reached and for their sound at the caller, how long after the end of speech that was.
func (c *conversation) stages(b *testing.B) figures {
	all := figures{"heard-ms": c.heard}
	var list struct {
		Messages []struct {
			Metadata struct {
				LatencyMS map[string]float64 `json:"latency_ms"`
			}
		}
	}
	res, err := http.Get(c.address + "/api/threads/" + c.thread + "/messages?limit=1000")
	must(b, err)
	must(b, json.NewDecoder(res.Body).Decode(&list))
	must(b, res.Body.Close())
	for _, m := range list.Messages {
		for stage, ms := range m.Metadata.LatencyMS { // of answers
			all.add(stage+"-ms", ms)
		}
	}
	return all
}
